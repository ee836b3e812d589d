/* SPDX-License-Identifier: Apache-2.0 */

/* memory_latency SIZE SECONDS: loads for so long, each from the address that the one
 * before it loaded, over SIZE octets in lines of 64, all of them in a random order before
 * the first comes again. It prints one JSON object: lines, how many a first walk saw, loads
 * in which time, and the line on which the last one ended, and on which it must. SECONDS 0:
 * it only finds out whether it can have the memory. */

#include "memory.h"

enum { LINE = 64, BLOCK = 1024 };

struct line {
	struct line *next;
	char rest[LINE - sizeof(void *)];
};

static uint64_t state = 0x2545f4914f6cdd1dULL;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static const struct line *walk(const struct line *at)
{
	int i;

	for (i = 0; i < BLOCK / 8; i++) {
		at = at->next;
		at = at->next;
		at = at->next;
		at = at->next;
		at = at->next;
		at = at->next;
		at = at->next;
		at = at->next;
	}
	return at;
}

int main(int argc, char **argv)
{
	unsigned long long size = argc == 3 ? octets(argv[1]) : 0, lines = size / LINE, loads = 0, seen = 0, i, j;
	double seconds = argc == 3 ? atof(argv[2]) : 0, begun, took;
	const struct line *at;
	struct line *line;
	uint32_t *order, other;

	if (lines < 2 || lines > UINT32_MAX) {
		fprintf(stderr, "memory_latency: say over how many octets, and for how many seconds\n");
		return 1;
	}
	line = had(size, 0);
	order = had(lines * sizeof *order, 0);
	if (line == NULL || order == NULL)
		return refuse(size, 0);
	if (seconds <= 0) {
		printf("{\"bits\": %d}\n", BITS);
		return 0;
	}
	for (i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (i = lines - 1; i > 0; i--) {
		j = any() % (i + 1);
		other = order[i];
		order[i] = order[j];
		order[j] = other;
	}
	for (i = 0; i < lines; i++)
		line[order[i]].next = &line[order[(i + 1) % lines]];

	at = &line[order[0]];
	do {
		at = at->next;
		seen++;
	} while (at != &line[order[0]] && seen <= lines);

	begun = now();
	do {
		at = walk(at);
		loads += BLOCK;
		took = now() - begun;
	} while (took < seconds);
	printf("{\"bits\": %d, \"lines\": %llu, \"seen\": %llu, \"loads\": %llu, \"seconds\": %.9f, \"end\": %llu, \"right_end\": %llu}\n", BITS, lines, seen, loads, took,
	       (unsigned long long)(at - line), (unsigned long long)order[loads % lines]);
	return 0;
}
