// SPDX-License-Identifier: BSD-3-Clause
//
// A rank in Go: its own heap, goroutines, stacks that grow, nil pointers caught by recover, garbage collection, an end by os.Exit or by the
// return of main. Prints one line; rank 2 ends with code 5 if there is an argument.
package main

// #include <mpi.h>
// #include <stdio.h>
// #include <unistd.h>
// static void initialize(void) { MPI_Init(NULL, NULL); }
// static int rank(void) { int rank; MPI_Comm_rank(MPI_COMM_WORLD, &rank); return rank; }
// static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
// static void finalize(void) { MPI_Finalize(); }
// static void say(int rank, int errors) { printf("rank %d: %d errors\n", rank, errors); fflush(stdout); }
import "C"
import (
	"os"
	"runtime"
)

var sum = 0

func depth(n int) int {
	var room [64]int
	if n == 0 {
		return room[0]
	}
	return depth(n-1) + 1
}

func refused() (caught bool) {
	defer func() { caught = recover() != nil }()
	var nothing *int
	*nothing = 1
	return
}

func main() {
	runtime.LockOSThread() // the thread that initializes MPI
	C.initialize()
	rank, errors := int(C.rank()), 0
	var kept [][]int
	for i := 0; i < 30; i++ {
		block, answer := make([]int, 1000), make(chan int)
		for j := range block {
			block[j] = rank*1000 + i
		}
		kept = append(kept, block)
		sum += rank
		C.barrier()
		go func() { answer <- depth(1000) + i }()
		if <-answer != 1000+i || !refused() {
			errors++
		}
		if i%10 == 0 {
			runtime.GC()
		}
	}
	for i, block := range kept {
		for _, value := range block {
			if value != rank*1000+i {
				errors++
			}
		}
	}
	if sum != 30*rank {
		errors++
	}
	C.finalize()
	C.say(C.int(rank), C.int(errors))
	if rank == 2 && len(os.Args) > 1 {
		os.Exit(5)
	}
}
