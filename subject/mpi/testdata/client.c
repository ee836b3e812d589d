// SPDX-License-Identifier: Apache-2.0
/* A process as Open MPI 5's are: it gives a value, meets the others, and prints theirs. With
   a number as its argument it gives so many octets beside. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <pmix.h>

int main(int argc, char **argv)
{
	pmix_proc_t me, other;
	pmix_value_t v, *got;
	pmix_info_t all;
	bool yes = true;
	char text[64];
	if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
		return 1;
	other = me;
	other.rank = PMIX_RANK_WILDCARD;
	if (PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &got) != PMIX_SUCCESS)
		return 2;
	uint32_t size = got->data.uint32;
	if (PMIx_Get(&other, PMIX_LOCAL_PEERS, NULL, 0, &got) != PMIX_SUCCESS)
		return 3;
	printf("%u of %u beside %s:", me.rank, size, got->data.string);
	snprintf(text, sizeof text, "at-%u", me.rank);
	PMIX_VALUE_LOAD(&v, text, PMIX_STRING);
	if (PMIx_Put(PMIX_GLOBAL, "where", &v) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
		return 4;
	if (argc > 1) {
		size_t n = (size_t)atol(argv[1]);
		char *more = calloc(n + 1, 1);
		if (!more)
			return 8;
		for (uint32_t i = 0, x = 1; i < n; i++, x = x * 1664525 + 1013904223) /* PMIx compresses it little */
			more[i] = (char)('!' + (x >> 16) % 90);
		PMIX_VALUE_LOAD(&v, more, PMIX_STRING);
		if (PMIx_Put(PMIX_GLOBAL, "more", &v) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
			return 9;
	}
	PMIX_INFO_LOAD(&all, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	if (PMIx_Fence(NULL, 0, &all, 1) != PMIX_SUCCESS)
		return 5;
	for (other.rank = 0; other.rank < size; other.rank++) {
		if (PMIx_Get(&other, "where", NULL, 0, &got) != PMIX_SUCCESS)
			return 6;
		printf(" %s", got->data.string);
	}
	printf("\n");
	return PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS && PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 7;
}
