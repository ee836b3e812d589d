/* SPDX-License-Identifier: Apache-2.0 */

/* The procedures and functions of Dhrystone 2.1 that main's file must not see. */

#include <string.h>

#include "dhrystone.h"

static int func_3(enum ident given)
{
	enum ident local = given;

	return local == IDENT_3;
}

void proc_6(enum ident given, enum ident *out)
{
	*out = given;
	if (!func_3(given))
		*out = IDENT_4;
	switch (given) {
	case IDENT_1:
		*out = IDENT_1;
		break;
	case IDENT_2:
		*out = int_global > 100 ? IDENT_1 : IDENT_4;
		break;
	case IDENT_3:
		*out = IDENT_2;
		break;
	case IDENT_4:
		break;
	case IDENT_5:
		*out = IDENT_3;
		break;
	}
}

void proc_7(int a, int b, int *out)
{
	int local = a + 2;

	*out = b + local;
}

void proc_8(int *one, row *two, int a, int b)
{
	int local = a + 5, i;

	one[local] = b;
	one[local + 1] = one[local];
	one[local + 30] = local;
	for (i = local; i <= local + 1; i++)
		two[local][i] = local;
	two[local][local - 1] += 1;
	two[local + 20][local] = one[local];
	int_global = 5;
}

enum ident func_1(char a, char b)
{
	char one = a, two = one;

	if (two != b)
		return IDENT_1;
	char_1_global = one;
	return IDENT_2;
}

int func_2(const char *a, const char *b)
{
	int i = 2;
	char c = 0;

	while (i <= 2) {
		if (func_1(a[i], b[i + 1]) == IDENT_1) {
			c = 'A';
			i += 1;
		}
	}
	if (c >= 'W' && c < 'Z')
		i = 7;
	if (c == 'R')
		return 1;
	if (strcmp(a, b) > 0) {
		i += 7;
		int_global = i;
		return 1;
	}
	return 0;
}
