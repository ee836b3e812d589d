// SPDX-License-Identifier: Apache-2.0
/* Prints how many octets each message has. A type is the octets of one, as a number. */
#include <stdint.h>
#include <stdio.h>

static void octets(int count, void *type) { printf("%ld ", count * (long)(intptr_t)type); }

int MPI_Type_vector(int count, int length, int stride, void *of, void **type)
{
	*type = stride == 1999999 ? (void *)(count * length * (intptr_t)of) : (void *)-1;
	return 0;
}

int MPI_Type_commit(void **type) { return *type == (void *)-1; }

int MPI_Sendrecv(const void *out, int outs, void *out_type, int to, int out_tag, void *in, int ins, void *in_type, int from, int in_tag, void *among, void *status)
{
	octets(outs, out_type);
	octets(ins, in_type);
	return 0;
}

int MPI_Isend(const void *out, int outs, void *type, int to, int tag, void *among, void **request)
{
	octets(outs, type);
	return 0;
}

int MPI_Irecv(void *in, int ins, void *type, int from, int tag, void *among, void **request)
{
	octets(ins, type);
	return 0;
}
