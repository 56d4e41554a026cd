// What programs on .NET do, by the word that is the first argument.
using System;
using System.Diagnostics;
using System.Threading;

class Situations {
    static void Main(string[] words) {
        switch (words[0]) {
            case "locks": Deadlock(); break;
            case "event": new ManualResetEvent(false).WaitOne(); break;
            case "child": Child(words[1], words[2]); break;
            case "sleep": Thread.Sleep(300000); break;
            case "ask": Console.Write("Solution name: "); Console.ReadLine(); break;
            case "serve":
                var listener = new System.Net.Sockets.TcpListener(System.Net.IPAddress.Loopback, 0);
                listener.Start();
                listener.AcceptTcpClient();
                break;
            default: throw new ArgumentException(words[0]);
        }
    }

    static void Deadlock() {
        object first = new object(), second = new object();
        var bothHoldOne = new Barrier(2);
        var other = new Thread(() => Take(second, first, bothHoldOne));
        other.Start();
        Take(first, second, bothHoldOne);
        other.Join();
    }

    static void Take(object one, object other, Barrier bothHoldOne) {
        lock (one) {
            bothHoldOne.SignalAndWait();
            lock (other) { }
        }
    }

    static void Child(string program, string arguments) {
        var start = new ProcessStartInfo(program, arguments) { UseShellExecute = false };
        Process.Start(start).WaitForExit();
    }
}
