/* SPDX-License-Identifier: Apache-2.0 */

/* The Whetstone benchmark, written after the algorithm that H. J. Curnow and B. A.
 * Wichmann published (A Synthetic Benchmark, The Computer Journal 19(1), 1976), in
 * double precision. What they have in subroutines stands in a file of its own, so that a
 * compiler cannot merge it into the loops that call it. */

extern double t, t1, t2;
extern double e[4];
extern int j, k, l;

/* of whetstone_2.c */
void array_as_parameter(double *a);
void array_references(void);
void call(double x, double y, double *z);
