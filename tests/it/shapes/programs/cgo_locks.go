// A thread of C code takes a lock that its own caller holds.
package main

/*
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&lock); }
*/
import "C"

func main() {
	C.take()
	C.take()
}
