//! What Rust programs do, by the word that is the first argument.

use std::io::Write;
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex};
use std::thread;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mutexes") => deadlock(),
        Some("channel") => {
            let (_sender, receiver) = mpsc::channel::<u8>();
            let _ = receiver.recv();
        }
        Some("condition") => {
            let (lock, condition) = (Mutex::new(()), Condvar::new());
            let guard = lock.lock().unwrap();
            drop(condition.wait(guard));
        }
        Some("serve") => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            for connection in listener.incoming() {
                drop(connection);
            }
        }
        Some("ask") => {
            print!("Crate name: ");
            std::io::stdout().flush().unwrap();
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        Some("park") => thread::park(),
        other => panic!("{other:?}"),
    }
}

fn deadlock() {
    let locks = Arc::new((Mutex::new(()), Mutex::new(())));
    let both_hold_one = Arc::new(Barrier::new(2));
    let (others, others_barrier) = (Arc::clone(&locks), Arc::clone(&both_hold_one));
    let other = thread::spawn(move || {
        let _one = others.1.lock().unwrap();
        others_barrier.wait();
        let _two = others.0.lock().unwrap();
    });
    {
        let _one = locks.0.lock().unwrap();
        both_hold_one.wait();
        let _two = locks.1.lock().unwrap();
    }
    other.join().unwrap();
}
