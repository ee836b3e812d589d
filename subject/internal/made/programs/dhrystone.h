/* SPDX-License-Identifier: Apache-2.0 */

/* Dhrystone 2.1, written after the algorithm that R. P. Weicker published (CACM 27(10),
 * 1984; SIGPLAN Notices 23(8), 1988). It stands in two files, so that a compiler that
 * sees one of them at a time can merge no procedure of the one into the other. */

enum ident { IDENT_1, IDENT_2, IDENT_3, IDENT_4, IDENT_5 };

struct record {
	struct record *next;
	enum ident discriminant;
	union {
		struct { enum ident kind; int number; char text[31]; } first;
		struct { enum ident kind; char text[31]; } second;
		struct { char one, two; } third;
	} variant;
};

typedef int row[50];

extern int int_global, bool_global;
extern char char_1_global, char_2_global;

/* of dhrystone_2.c */
void proc_6(enum ident given, enum ident *out);
void proc_7(int a, int b, int *out);
void proc_8(int *one, row *two, int a, int b);
enum ident func_1(char a, char b);
int func_2(const char *a, const char *b);
