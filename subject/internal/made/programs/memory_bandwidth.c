/* SPDX-License-Identifier: Apache-2.0 */

/* memory_bandwidth SIZE SECONDS: writes a locked buffer of SIZE octets with memset, reads
 * it in words of the machine, and copies its first half to its second with memcpy, each in
 * whole passes for so long, and prints one JSON object: passes, their time, and what the
 * buffer held. SECONDS 0: it only finds out whether it can have the buffer. */

#include "memory.h"

static const uint64_t step = 0x9e3779b97f4a7c15ULL;

static void fill(uint64_t *words, size_t n, uint64_t first)
{
	size_t i;

	for (i = 0; i < n; i++)
		words[i] = first + i * step;
}

/* add is the sum of the words, and their sum when each is multiplied by its place. */
static void add(const uint64_t *words, size_t n, uint64_t *sum, uint64_t *placed)
{
	size_t i;

	*sum = *placed = 0;
	for (i = 0; i < n; i++) {
		*sum += words[i];
		*placed += words[i] * (i + 1);
	}
}

static unsigned long read_all(const unsigned long *words, size_t n)
{
	unsigned long sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += words[i];
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long long size = argc == 3 ? octets(argv[1]) : 0, passes;
	double seconds = argc == 3 ? atof(argv[2]) : 0, begun, took;
	unsigned long read = 0;
	uint64_t sum, placed;
	size_t half;
	char *buffer;

	if (size == 0 || size % 128 != 0) {
		fprintf(stderr, "memory_bandwidth: say how many octets, a multiple of 128, and for how many seconds\n");
		return 1;
	}
	buffer = had(size, 1);
	if (buffer == NULL)
		return refuse(size, 1);
	if (seconds <= 0) {
		printf("{\"bits\": %d}\n", BITS);
		return 0;
	}
	begun = now();
	if (mlock(buffer, size) != 0)
		return refuse(size, 1);
	printf("{\"bits\": %d, \"locked\": %llu, \"lock\": {\"seconds\": %.9f}", BITS, size, now() - begun);

	passes = 0;
	begun = now();
	do {
		passes++;
		memset(buffer, (int)(passes % 255 + 1), size);
		done();
		took = now() - begun;
	} while (took < seconds);
	printf(", \"write\": {\"passes\": %llu, \"seconds\": %.9f}", passes, took);

	passes = 0;
	begun = now();
	do {
		passes++;
		read += read_all((const unsigned long *)buffer, size / sizeof(unsigned long));
		done();
		took = now() - begun;
	} while (took < seconds);
	printf(", \"read\": {\"passes\": %llu, \"seconds\": %.9f, \"sum\": \"%lu\"}", passes, took, read);

	half = size / 2;
	fill((uint64_t *)buffer, half / 8, 1);
	memcpy(buffer + half, buffer, half);
	add((const uint64_t *)(buffer + half), half / 8, &sum, &placed);
	printf(", \"first_copy\": {\"sum\": \"%llu\", \"placed\": \"%llu\"}", (unsigned long long)sum, (unsigned long long)placed);
	fill((uint64_t *)buffer, half / 8, 2);
	passes = 0;
	begun = now();
	do {
		passes++;
		memcpy(buffer + half, buffer, half);
		done();
		took = now() - begun;
	} while (took < seconds);
	add((const uint64_t *)(buffer + half), half / 8, &sum, &placed);
	printf(", \"copy\": {\"passes\": %llu, \"seconds\": %.9f, \"sum\": \"%llu\", \"placed\": \"%llu\"}}\n", passes, took, (unsigned long long)sum, (unsigned long long)placed);
	return 0;
}
