/* SPDX-License-Identifier: Apache-2.0 */

/* The constants and subroutines of Whetstone. */

#include "whetstone.h"

double t = 0.499975, t1 = 0.50025, t2 = 2.0;
double e[4];
int j, k, l;

void array_as_parameter(double *a)
{
	int i = 0;

	do {
		a[0] = (a[0] + a[1] + a[2] - a[3]) * t;
		a[1] = (a[0] + a[1] - a[2] + a[3]) * t;
		a[2] = (a[0] - a[1] + a[2] + a[3]) * t;
		a[3] = (-a[0] + a[1] + a[2] + a[3]) / t2;
		i++;
	} while (i < 6);
}

void array_references(void)
{
	e[j - 1] = e[k - 1];
	e[k - 1] = e[l - 1];
	e[l - 1] = e[j - 1];
}

void call(double x, double y, double *z)
{
	double a = x, b = y;

	a = t * (a + b);
	b = t * (a + b);
	*z = (a + b) / t2;
}
