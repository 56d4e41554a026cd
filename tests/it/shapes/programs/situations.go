// What Go programs do, by the word that is the first argument.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	// Without a handler, the runtime itself ends a program whose goroutines all wait.
	interrupts := make(chan os.Signal, 1)
	if os.Args[1] != "found" && os.Args[1] != "pipe" {
		signal.Notify(interrupts, os.Interrupt)
	}
	switch os.Args[1] {
	case "mutexes", "found":
		deadlock()
	case "channel":
		<-make(chan int)
	case "pipe":
		reader, writer, _ := os.Pipe()
		reader.Read(make([]byte, 1))
		writer.Close()
	case "group":
		var group sync.WaitGroup
		group.Add(1)
		group.Wait()
	case "child":
		command := exec.Command(os.Args[2], os.Args[3:]...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.Run()
	case "output":
		exec.Command(os.Args[2], os.Args[3:]...).Output()
	case "serve":
		listener, _ := net.Listen("tcp", "127.0.0.1:0")
		http.Serve(listener, nil)
	case "interrupt":
		<-interrupts
	case "ticker":
		for range time.Tick(2 * time.Second) {
			fmt.Println("waiting for leader election")
		}
	case "sleep":
		time.Sleep(300 * time.Second)
	case "compute":
		total := 1
		for i := 0; total != 0; i++ {
			total = (total*31+i)%1000003 + 1
		}
	case "ask":
		fmt.Print("Module name: ")
		var name string
		fmt.Scanln(&name)
	case "get":
		http.Get(os.Args[2])
	case "lock":
		file, _ := os.OpenFile(os.Args[2], os.O_CREATE|os.O_RDWR, 0o600)
		syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	default:
		panic(os.Args[1])
	}
}

func deadlock() {
	var first, second sync.Mutex
	var bothHoldOne, done sync.WaitGroup
	bothHoldOne.Add(2)
	done.Add(2)
	take := func(one, other *sync.Mutex) {
		one.Lock()
		bothHoldOne.Done()
		bothHoldOne.Wait()
		other.Lock()
		done.Done()
	}
	go take(&first, &second)
	go take(&second, &first)
	done.Wait()
}
