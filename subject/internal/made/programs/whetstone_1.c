/* SPDX-License-Identifier: Apache-2.0 */

/* whetstone SECONDS: passes for so long, a pass being a million Whetstone instructions,
 * and prints one JSON object: how many passes took how long, and what the modules 2, 3,
 * 4, 6, 7, 8, 9 and 11 gave. Modules 1, 5 and 10 have no rounds in the benchmark. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "whetstone.h"

enum { LOOP = 10 }; /* of 100 000 Whetstone instructions each */

static double given[8][4]; /* by the modules */

static void keep(int module, double a, double b, double c, double d)
{
	given[module][0] = a;
	given[module][1] = b;
	given[module][2] = c;
	given[module][3] = d;
}

static void pass(void)
{
	double x, y, z;
	int i;

	/* 2: array elements */
	e[0] = 1.0;
	e[1] = e[2] = e[3] = -1.0;
	for (i = 0; i < 12 * LOOP; i++) {
		e[0] = (e[0] + e[1] + e[2] - e[3]) * t;
		e[1] = (e[0] + e[1] - e[2] + e[3]) * t;
		e[2] = (e[0] - e[1] + e[2] + e[3]) * t;
		e[3] = (-e[0] + e[1] + e[2] + e[3]) * t;
	}
	keep(0, e[0], e[1], e[2], e[3]);

	/* 3: an array as a parameter */
	for (i = 0; i < 14 * LOOP; i++)
		array_as_parameter(e);
	keep(1, e[0], e[1], e[2], e[3]);

	/* 4: conditional jumps */
	j = 1;
	for (i = 0; i < 345 * LOOP; i++) {
		if (j == 1)
			j = 2;
		else
			j = 3;
		if (j > 2)
			j = 0;
		else
			j = 1;
		if (j < 1)
			j = 1;
		else
			j = 0;
	}
	keep(2, j, j, j, j);

	/* 6: integer arithmetic */
	j = 1;
	k = 2;
	l = 3;
	for (i = 0; i < 210 * LOOP; i++) {
		j = j * (k - j) * (l - k);
		k = l * k - (l - j) * k;
		l = (l - k) * (k + j);
		e[l - 2] = j + k + l;
		e[k - 2] = j * k * l;
	}
	keep(3, e[0], e[1], e[2], e[3]);

	/* 7: trigonometric functions */
	x = y = 0.5;
	for (i = 0; i < 32 * LOOP; i++) {
		x = t * atan(t2 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) - 1.0));
		y = t * atan(t2 * sin(y) * cos(y) / (cos(x + y) + cos(x - y) - 1.0));
	}
	keep(4, x, x, y, y);

	/* 8: procedure calls */
	x = y = z = 1.0;
	for (i = 0; i < 899 * LOOP; i++)
		call(x, y, &z);
	keep(5, x, y, z, z);

	/* 9: array references */
	j = 1;
	k = 2;
	l = 3;
	e[0] = 1.0;
	e[1] = 2.0;
	e[2] = 3.0;
	for (i = 0; i < 616 * LOOP; i++)
		array_references();
	keep(6, e[0], e[1], e[2], e[3]);

	/* 11: standard functions */
	x = 0.75;
	for (i = 0; i < 93 * LOOP; i++)
		x = sqrt(exp(log(x) / t1));
	keep(7, x, x, x, x);
}

static double now(void)
{
	struct timespec s;

	clock_gettime(CLOCK_MONOTONIC, &s);
	return s.tv_sec + s.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double asked = argc == 2 ? atof(argv[1]) : 0, begun, took;
	unsigned long long passes = 0;
	int m, n;

	if (asked <= 0) {
		fprintf(stderr, "whetstone: say for how many seconds\n");
		return 1;
	}
	begun = now();
	do {
		pass();
		passes++;
		took = now() - begun;
	} while (took < asked);
	printf("{\"runs\": %llu, \"seconds\": %.9f, \"values\": \"", passes, took);
	for (m = 0; m < 8; m++)
		for (n = 0; n < 4; n++)
			printf("%s%.4E", m + n ? " " : "", given[m][n]);
	printf("\"}\n");
	return 0;
}
