/* SPDX-License-Identifier: Apache-2.0 */

/* dhrystone SECONDS: runs for so long, and prints one JSON object: how many runs took
 * how long, and what the variables hold at the end. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dhrystone.h"

enum { BLOCK = 20000 }; /* runs between two looks at the clock */

int int_global, bool_global;
char char_1_global, char_2_global;

static int array_1[50];
static row array_2[50];
static struct record *record_global, *next_global;

static void proc_2(int *out)
{
	int local = *out + 10;
	enum ident found = IDENT_2;

	do {
		if (char_1_global == 'A') {
			local -= 1;
			*out = local - int_global;
			found = IDENT_1;
		}
	} while (found != IDENT_1);
}

static void proc_3(struct record **out)
{
	if (record_global != NULL)
		*out = record_global->next;
	proc_7(10, int_global, &record_global->variant.first.number);
}

static void proc_1(struct record *given)
{
	struct record *next = given->next;

	*given->next = *record_global;
	given->variant.first.number = 5;
	next->variant.first.number = given->variant.first.number;
	next->next = given->next;
	proc_3(&next->next);
	if (next->discriminant == IDENT_1) {
		next->variant.first.number = 6;
		proc_6(given->variant.first.kind, &next->variant.first.kind);
		next->next = record_global->next;
		proc_7(next->variant.first.number, 10, &next->variant.first.number);
	} else {
		*given = *given->next;
	}
}

static void proc_4(void)
{
	int local = char_1_global == 'A';

	bool_global = local | bool_global;
	char_2_global = 'B';
}

static void proc_5(void)
{
	char_1_global = 'A';
	bool_global = 0;
}

/* What main's locals hold after the last run. */
static int int_1, int_2, int_3;
static enum ident kind;
static char text_1[31], text_2[31];

static void run(int runs)
{
	int one = 0, two = 0, three = 0, i;
	char c;

	for (i = 1; i <= runs; i++) {
		proc_5();
		proc_4();
		one = 2;
		two = 3;
		strcpy(text_2, "DHRYSTONE PROGRAM, 2'ND STRING");
		kind = IDENT_2;
		bool_global = !func_2(text_1, text_2);
		while (one < two) {
			three = 5 * one - two;
			proc_7(one, two, &three);
			one += 1;
		}
		proc_8(array_1, array_2, one, three);
		proc_1(record_global);
		for (c = 'A'; c <= char_2_global; c++) {
			if (kind == func_1(c, 'C')) {
				proc_6(IDENT_1, &kind);
				strcpy(text_2, "DHRYSTONE PROGRAM, 3'RD STRING");
				two = i;
				int_global = i;
			}
		}
		two = two * one;
		one = two / three;
		two = 7 * (two - three) - one;
		proc_2(&one);
	}
	int_1 = one;
	int_2 = two;
	int_3 = three;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double asked = argc == 2 ? atof(argv[1]) : 0, begun, took;
	unsigned long long runs = 0;

	if (asked <= 0) {
		fprintf(stderr, "dhrystone: say for how many seconds\n");
		return 1;
	}
	next_global = malloc(sizeof *next_global);
	record_global = malloc(sizeof *record_global);
	if (next_global == NULL || record_global == NULL) {
		fprintf(stderr, "dhrystone: no memory\n");
		return 1;
	}
	memset(next_global, 0, sizeof *next_global);
	record_global->next = next_global;
	record_global->discriminant = IDENT_1;
	record_global->variant.first.kind = IDENT_3;
	record_global->variant.first.number = 40;
	strcpy(record_global->variant.first.text, "DHRYSTONE PROGRAM, SOME STRING");
	strcpy(text_1, "DHRYSTONE PROGRAM, 1'ST STRING");

	begun = now();
	do {
		array_2[8][7] = 10; /* it counts runs, and would overflow */
		run(BLOCK);
		runs += BLOCK;
		took = now() - begun;
	} while (took < asked);

	printf("{\"runs\": %llu, \"seconds\": %.9f, \"values\": \"%d %d %c %c %d %d %d %d %d %s %d %d %d %s %d %d %d %d %s %s\"}\n",
		runs, took, int_global, bool_global, char_1_global, char_2_global, array_1[8], array_2[8][7] - BLOCK,
		record_global->discriminant, record_global->variant.first.kind, record_global->variant.first.number, record_global->variant.first.text,
		next_global->discriminant, next_global->variant.first.kind, next_global->variant.first.number, next_global->variant.first.text,
		int_1, int_2, int_3, kind, text_1, text_2);
	return 0;
}
