// SPDX-License-Identifier: BSD-3-Clause
//
// library.h: what library.cc exports.
extern "C" {
int library_set(int id); // of the calling thread; returns its former id, at first 7
int library_has(int id); // all thread_local data of the calling thread is as it was set
int library_destroyed(); // how many objects of ended threads of the rank have been destroyed
}
