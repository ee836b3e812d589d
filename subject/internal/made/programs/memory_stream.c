/* SPDX-License-Identifier: Apache-2.0 */

/* memory_stream SIZE PASSES: the four kernels of J. D. McCalpin's STREAM, written after
 * his description of them, over three arrays of doubles of SIZE octets each. It prints one
 * JSON object: the best time of each kernel in all passes but the first, and by how much
 * the arrays' elements are wrong at the end, relative to what they must be, on average.
 * PASSES 0: it only finds out whether it can have the arrays. */

#include "memory.h"

static const double scalar = 3.0;

static __attribute__((noinline)) void copy(double *restrict c, const double *restrict a, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		c[i] = a[i];
}

static __attribute__((noinline)) void scale(double *restrict b, const double *restrict c, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		b[i] = scalar * c[i];
}

static __attribute__((noinline)) void add(double *restrict c, const double *restrict a, const double *restrict b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		c[i] = a[i] + b[i];
}

static __attribute__((noinline)) void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		a[i] = b[i] + scalar * c[i];
}

/* wrong is the mean distance of the elements from what each must be, as a share of it. */
static double wrong(const double *of, size_t n, double right)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += of[i] > right ? of[i] - right : right - of[i];
	return sum / (double)n / right;
}

int main(int argc, char **argv)
{
	unsigned long long size = argc == 3 ? octets(argv[1]) : 0;
	int passes = argc == 3 ? atoi(argv[2]) : -1, k, pass;
	double *a, *b, *c, begun, took, best[4] = {0, 0, 0, 0};
	double right_a = 1.0, right_b = 2.0, right_c = 0.0;
	size_t n = size / sizeof(double), i;

	if (n == 0 || passes < 0 || passes == 1 || passes > 100) {
		fprintf(stderr, "memory_stream: say of how many octets an array is, and how many passes, 2 to 100\n");
		return 1;
	}
	a = had(size, 0);
	b = had(size, 0);
	c = had(size, 0);
	if (a == NULL || b == NULL || c == NULL)
		return refuse(size, 0);
	if (passes == 0) {
		printf("{\"bits\": %d}\n", BITS);
		return 0;
	}
	for (i = 0; i < n; i++) {
		a[i] = right_a;
		b[i] = right_b;
		c[i] = right_c;
	}
	for (pass = 0; pass < passes; pass++) {
		for (k = 0; k < 4; k++) {
			begun = now();
			switch (k) {
			case 0: copy(c, a, n); break;
			case 1: scale(b, c, n); break;
			case 2: add(c, a, b, n); break;
			case 3: triad(a, b, c, n); break;
			}
			done();
			took = now() - begun;
			if (pass == 1 || (pass > 1 && took < best[k]))
				best[k] = took;
		}
		right_c = right_a;
		right_b = scalar * right_c;
		right_c = right_a + right_b;
		right_a = right_b + scalar * right_c;
	}
	printf("{\"bits\": %d, \"size\": %llu, \"copy\": %.9f, \"scale\": %.9f, \"add\": %.9f, \"triad\": %.9f, \"wrong\": [%.3g, %.3g, %.3g]}\n", BITS, size,
	       best[0], best[1], best[2], best[3], wrong(a, n, right_a), wrong(b, n, right_b), wrong(c, n, right_c));
	return 0;
}
