// SPDX-License-Identifier: Apache-2.0
/* Sends what hpcc sends in rings: a long message each way, a short one, and one that is no ring's. */
int MPI_Sendrecv(const void *, int, void *, int, int, void *, int, void *, int, int, void *, void *);
int MPI_Isend(const void *, int, void *, int, int, void *, void **);
int MPI_Irecv(void *, int, void *, int, int, void *, void **);

int main(void)
{
	void *octet = (void *)1, *request;
	MPI_Sendrecv(0, 2000000, octet, 1, 200, 0, 2000000, octet, 1, 200, 0, 0);
	MPI_Isend(0, 2000000, octet, 1, 201, 0, &request);
	MPI_Irecv(0, 2000000, octet, 1, 201, 0, &request);
	MPI_Isend(0, 8, octet, 1, 200, 0, &request);
	MPI_Isend(0, 2000000, octet, 1, 100, 0, &request);
	return 0;
}
