import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;

/** What programs on the JVM do, by the word that is the first argument. */
public class Situations {
    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "synchronized" -> deadlock(new Object(), new Object());
            case "locks" -> deadlock(new ReentrantLock(), new ReentrantLock());
            case "pool" -> poolOfOne();
            case "queue" -> new LinkedBlockingQueue<String>().take();
            case "latch" -> new CountDownLatch(1).await();
            case "child" -> child(words);
            case "serve" -> serve();
            case "sleep" -> Thread.sleep(300_000);
            case "repeat" -> repeat();
            case "compute" -> compute();
            case "ask" -> ask();
            case "get" -> new URL(words[1]).openStream().read();
            case "lock" -> new java.io.RandomAccessFile(words[1], "rw").getChannel().lock();
            case "late" -> lateThread();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void deadlock(Object one, Object other) throws Exception {
        CountDownLatch bothHoldOne = new CountDownLatch(2);
        Thread first = new Thread(() -> take(one, other, bothHoldOne));
        Thread second = new Thread(() -> take(other, one, bothHoldOne));
        first.start();
        second.start();
        first.join();
        second.join();
    }

    private static void take(Object one, Object other, CountDownLatch bothHoldOne) {
        synchronized (one) {
            meet(bothHoldOne);
            synchronized (other) {
                System.out.println("both");
            }
        }
    }

    private static void deadlock(Lock one, Lock other) throws Exception {
        CountDownLatch bothHoldOne = new CountDownLatch(2);
        Thread first = new Thread(() -> take(one, other, bothHoldOne));
        Thread second = new Thread(() -> take(other, one, bothHoldOne));
        first.start();
        second.start();
        first.join();
        second.join();
    }

    private static void take(Lock one, Lock other, CountDownLatch bothHoldOne) {
        one.lock();
        meet(bothHoldOne);
        other.lock();
    }

    private static void meet(CountDownLatch latch) {
        latch.countDown();
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The only thread of a pool waits for work that the pool is to do. */
    private static void poolOfOne() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        pool.submit(() -> pool.submit(() -> 1).get()).get();
    }

    private static void child(String[] words) throws Exception {
        String[] command = java.util.Arrays.copyOfRange(words, 1, words.length);
        new ProcessBuilder(command).redirectInput(new File("/dev/null"))
            .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.INHERIT)
            .start().waitFor();
    }

    private static void serve() throws Exception {
        InetSocketAddress anywhere = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        com.sun.net.httpserver.HttpServer.create(anywhere, 0).start();
    }

    private static void repeat() throws Exception {
        while (true) {
            System.out.println("Still waiting for the broker to become ready");
            Thread.sleep(2000);
        }
    }

    private static void compute() {
        long total = 0;
        for (long i = 0; total != 1; i++) {
            total = (total * 31 + i) % 1_000_003 + 2;
        }
        System.out.println(total);
    }

    private static void ask() {
        System.out.print("Project name: ");
        System.out.flush();
        new Scanner(System.in).nextLine();
    }

    /** The main thread has ended; another goes on. */
    private static void lateThread() {
        new Thread(() -> {
            try {
                Thread.sleep(300_000);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }).start();
        System.out.println("BUILD SUCCESSFUL in 2s");
    }
}
