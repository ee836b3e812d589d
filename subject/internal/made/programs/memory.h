/* SPDX-License-Identifier: Apache-2.0 */

/* What the programs of procedure memory share: a clock, and memory that is had in one
 * piece. Where it cannot be had they print why, and end as if nothing had happened. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BITS = 8 * sizeof(void *) };

/* done keeps a compiler from leaving out, or moving, what was stored before. */
#define done() __asm__ __volatile__("" ::: "memory")

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* had maps size octets, and keeps them from being swapped where lock is set, without
 * touching them. */
static void *had(unsigned long long size, int lock)
{
	void *at;

	if (size > SIZE_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
#ifdef SYS_mlock2
	if (lock && syscall(SYS_mlock2, at, (size_t)size, 1 /* MLOCK_ONFAULT */) != 0 && errno != ENOSYS) {
		int why = errno;

		munmap(at, size);
		errno = why;
		return NULL;
	}
#else
	(void)lock;
#endif
	return at;
}

/* refuse says that pieces of size octets cannot be had, and which is the greatest single
 * one that can, in whole MiB. */
static int refuse(unsigned long long size, int lock)
{
	unsigned long long least = 0, most = size >> 20, mid;
	struct rlimit allowed = {0, 0};
	int why = errno;
	void *at;

	while (least < most) {
		mid = least + (most - least + 1) / 2;
		at = had(mid << 20, lock);
		if (at != NULL) {
			munmap(at, mid << 20);
			least = mid;
		} else {
			most = mid - 1;
		}
	}
	getrlimit(RLIMIT_MEMLOCK, &allowed);
	printf("{\"refused\": \"%s\", \"bits\": %d, \"greatest\": %llu, \"allowed\": %llu}\n", strerror(why), BITS, least << 20,
	       allowed.rlim_cur == RLIM_INFINITY ? ~0ULL : (unsigned long long)allowed.rlim_cur);
	return 0;
}

/* octets is a command line's size, 0 where it is none. */
static unsigned long long octets(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	return *end == 0 ? n : 0;
}
