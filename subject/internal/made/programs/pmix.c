// SPDX-License-Identifier: Apache-2.0
/* Lets the processes of this machine begin as Open MPI 5 does, by PMIx, without its daemon:

	pmix HERE N0,N1,... PROCESSES OCTETS    machine HERE (from 0) of machines with N0, N1, ... processes,
	                                        all together at most PROCESSES; those of a machine
	                                        give at most OCTETS at a fence

   It prints for each of its processes RANK<tab>NAME=VALUE lines, the environment that leads
   it here, then "ready". What processes give at a fence goes to the other machines by the
   calls of pmi.c, whose process this is. It ends when its standard input does. */
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

int PMI_Init(int *spawned);
int PMI_Abort(int code, const char *message);
int PMI_Barrier(void);
int PMI_KVS_Put(const char *name, const char *key, const char *value);
int PMI_KVS_Get(const char *name, const char *key, char *value, int length);

enum { OCTETS = 500, KEY = 64, VALUE = 1024, NAME = 12 /* "m" or none, a number, "," */ };

static const char job[] = "boxdyno";
static int here, machines, *count, size, first;
static size_t most; /* octets that processes of a machine give at a fence */
static int queue[2]; /* fences, from the library's thread to this program's first */

typedef struct {
	char *data;
	size_t length;
	pmix_modex_cbfunc_t done;
	void *with;
} fence;

/* stop says in one sentence why the work cannot go on, and ends this program. */
static void stop(const char *format, ...)
{
	char text[VALUE];
	va_list with;
	va_start(with, format);
	vsnprintf(text, VALUE, format, with);
	va_end(with);
	PMI_Abort(1, text);
}

static void fail(const char *what, int rc) { stop("%s: %s", what, PMIx_Error_string(rc)); }

static pmix_status_t at_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, char *data, size_t length, pmix_modex_cbfunc_t done, void *with)
{
	fence *f = malloc(sizeof *f);
	(void)procs, (void)n, (void)info, (void)ninfo;
	if (!f)
		return PMIX_ERR_NOMEM;
	*f = (fence){data, length, done, with};
	return write(queue[1], &f, sizeof f) == sizeof f ? PMIX_SUCCESS : PMIX_ERROR;
}

/* No process asks for what another one has not given at a fence. */
static pmix_status_t alone(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_modex_cbfunc_t done, void *with)
{
	(void)proc, (void)info, (void)ninfo, (void)done, (void)with;
	return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t known(const pmix_proc_t *proc, void *of, pmix_op_cbfunc_t done, void *with)
{
	(void)proc, (void)of, (void)done, (void)with;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t aborts(const pmix_proc_t *proc, void *of, int status, const char message[], pmix_proc_t procs[], size_t n, pmix_op_cbfunc_t done, void *with)
{
	(void)proc, (void)of, (void)procs, (void)n, (void)done, (void)with;
	PMI_Abort(status, message);
	return PMIX_SUCCESS;
}

static pmix_server_module_t calls = {.client_connected = NULL, .client_finalized = known, .abort = aborts, .fence_nb = at_fence, .direct_modex = alone};

/* given is how many octets machine m gave at fence number. */
static size_t given(int number, int m)
{
	char key[KEY], value[VALUE], *end;
	snprintf(key, KEY, "f%d-%d", number, m);
	if (PMI_KVS_Get(job, key, value, VALUE))
		stop("machine %d did not give what its processes have for each other", m + 1);
	long n = strtol(value, &end, 10);
	if (*end || end == value || n < 0 || (size_t)n > most)
		stop("machine %d says that its processes give each other %.20s octets, and %zu are the most", m + 1, value, most);
	return (size_t)n;
}

/* meet hands what this machine's processes gave to all machines, and has theirs. */
static void meet(const fence *f, int number)
{
	char key[KEY], value[VALUE], *all;
	size_t got = 0, octets = 0;
	if (f->length > most)
		stop("the processes of a machine give each other %zu octets at once, and %zu are the most", f->length, most);
	for (size_t at = 0, part = 0; at < f->length; part++) {
		size_t n = f->length - at < OCTETS ? f->length - at : OCTETS;
		for (size_t i = 0; i < n; i++)
			sprintf(value + 2 * i, "%02x", (unsigned char)f->data[at + i]);
		snprintf(key, KEY, "f%d-%d-%zu", number, here, part);
		if (PMI_KVS_Put(job, key, value))
			fail("hand on what processes give", PMIX_ERROR);
		at += n;
	}
	snprintf(key, KEY, "f%d-%d", number, here);
	snprintf(value, VALUE, "%zu", f->length);
	if (PMI_KVS_Put(job, key, value) || PMI_Barrier())
		fail("meet the other machines", PMIX_ERROR);
	for (int m = 0; m < machines; m++)
		octets += given(number, m);
	if (!(all = malloc(octets + 1)))
		stop("there is no memory for the %zu octets that processes give each other", octets);
	for (int m = 0; m < machines; m++) {
		size_t length = given(number, m);
		for (size_t at = 0, part = 0; at < length; part++) {
			snprintf(key, KEY, "f%d-%d-%zu", number, m, part);
			if (PMI_KVS_Get(job, key, value, VALUE))
				fail("hear the other machines", PMIX_ERROR);
			size_t n = strlen(value) / 2;
			if (n == 0 || n > length - at)
				fail("read what the other machines give", PMIX_ERROR);
			for (size_t i = 0; i < n; i++) {
				unsigned octet;
				if (sscanf(value + 2 * i, "%2x", &octet) != 1)
					fail("read what the other machines give", PMIX_ERROR);
				all[got++] = (char)octet;
			}
			at += n;
		}
	}
	f->done(PMIX_SUCCESS, all, got, f->with, free, all);
}

static void put(pmix_info_t *info, const char *key, const void *value, pmix_data_type_t type)
{
	PMIX_INFO_LOAD(info, key, value, type);
}

static void put32(pmix_info_t *info, const char *key, uint32_t value) { put(info, key, &value, PMIX_UINT32); }

static void put16(pmix_info_t *info, const char *key, uint16_t value) { put(info, key, &value, PMIX_UINT16); }

/* add appends to a text of so many octets. What does not fit ends this program. */
static size_t add(char *text, size_t at, size_t octets, const char *format, const char *before, int number)
{
	int n = snprintf(text + at, octets - at, format, before, number);
	if (n < 0 || (size_t)n >= octets - at)
		stop("the list of %d machines and %d processes does not fit into %zu octets", machines, size, octets);
	return at + (size_t)n;
}

/* names are "m0,m1,...", ranks "0,1;2", of all machines, and peers "0,1" of this one. */
static void lists(char *names, char *ranks, char *peers, size_t octets)
{
	size_t n = 0, r = 0, p = 0;
	for (int m = 0, rank = 0; m < machines; m++) {
		n = add(names, n, octets, "%sm%d", m ? "," : "", m);
		for (int i = 0; i < count[m]; i++, rank++) {
			r = add(ranks, r, octets, "%s%d", i ? "," : m ? ";" : "", rank);
			if (m == here)
				p = add(peers, p, octets, "%s%d", i ? "," : "", rank);
		}
	}
}

/* describe has the library know all processes. */
static void describe(char *name)
{
	enum { OWN = 9, EACH = 7 };
	size_t octets = (size_t)size * NAME + 1;
	char *names = malloc(octets), *ranks = malloc(octets), *peers = malloc(octets);
	char *map, *processes, machine[KEY];
	pmix_info_t *info;
	int at = 0, rc;
	if (!names || !ranks || !peers)
		stop("there is no memory for the list of %d processes", size);
	lists(names, ranks, peers, octets);
	if ((rc = PMIx_generate_regex(names, &map)) || (rc = PMIx_generate_ppn(ranks, &processes)))
		fail("describe the machines", rc);
	PMIX_INFO_CREATE(info, (size_t)(OWN + size));
	put(&info[at++], PMIX_NODE_MAP, map, PMIX_REGEX);
	put(&info[at++], PMIX_PROC_MAP, processes, PMIX_REGEX);
	put32(&info[at++], PMIX_UNIV_SIZE, (uint32_t)size);
	put32(&info[at++], PMIX_JOB_SIZE, (uint32_t)size);
	put32(&info[at++], PMIX_MAX_PROCS, (uint32_t)size);
	put32(&info[at++], PMIX_JOB_NUM_APPS, 1);
	put32(&info[at++], PMIX_LOCAL_SIZE, (uint32_t)count[here]);
	put(&info[at++], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
	put32(&info[at++], PMIX_NUM_NODES, (uint32_t)machines);
	for (int m = 0, rank = 0; m < machines; m++) {
		snprintf(machine, KEY, "m%d", m);
		for (int i = 0; i < count[m]; i++, rank++) {
			pmix_data_array_t *of;
			pmix_rank_t r = (pmix_rank_t)rank;
			PMIX_DATA_ARRAY_CREATE(of, EACH, PMIX_INFO);
			pmix_info_t *x = of->array;
			put(&x[0], PMIX_RANK, &r, PMIX_PROC_RANK);
			put16(&x[1], PMIX_LOCAL_RANK, (uint16_t)i);
			put16(&x[2], PMIX_NODE_RANK, (uint16_t)i);
			put32(&x[3], PMIX_NODEID, (uint32_t)m);
			put(&x[4], PMIX_HOSTNAME, machine, PMIX_STRING);
			put32(&x[5], PMIX_APPNUM, 0);
			put(&x[6], PMIX_GLOBAL_RANK, &r, PMIX_PROC_RANK);
			PMIX_LOAD_KEY(info[at].key, PMIX_PROC_INFO_ARRAY);
			info[at].value.type = PMIX_DATA_ARRAY;
			info[at++].value.data.darray = of;
		}
	}
	rc = PMIx_server_register_nspace(name, count[here], info, (size_t)at, NULL, NULL);
	if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
		fail("describe the processes", rc);
}

/* number is a decimal one from least to greatest; -1: it is none. */
static long number(const char *text, long least, long greatest)
{
	char *end;
	long n = strtol(text, &end, 10);
	return *text && !*end && n >= least && n <= greatest ? n : -1;
}

/* begun reads the arguments, or says in one sentence what is wrong with them. */
static int begun(int argc, char **argv)
{
	enum { OUTMOST = 1 << 20 };
	long processes, octets;
	if (argc != 5 || (processes = number(argv[3], 1, OUTMOST)) < 0 || (octets = number(argv[4], 1, OUTMOST)) < 0)
		return fprintf(stderr, "want HERE N0,N1,... PROCESSES OCTETS, the last two from 1 to %d\n", OUTMOST), 0;
	most = (size_t)octets;
	if (!(count = calloc((size_t)processes, sizeof *count)))
		return fprintf(stderr, "there is no memory for %ld machines\n", processes), 0;
	here = (int)number(argv[1], 0, processes - 1);
	for (char *word = strtok(argv[2], ","); word; word = strtok(NULL, ",")) {
		long n = number(word, 1, processes);
		if (n < 0)
			return fprintf(stderr, "machine %d has %.20s processes: a machine has 1 to %ld\n", machines + 1, word, processes), 0;
		if (size + n > processes)
			return fprintf(stderr, "there are more than %ld processes with those of machine %d, and so many are the most\n", processes, machines + 1), 0;
		if (machines < here)
			first += (int)n;
		size += count[machines++] = (int)n;
	}
	if (here < 0 || here >= machines)
		return fprintf(stderr, "this is machine %.20s, counted from 0, of %d\n", argv[1], machines), 0;
	return 1;
}

int main(int argc, char **argv)
{
	pmix_info_t *info;
	pmix_proc_t proc;
	char own[KEY];
	int rc, none;
	if (!begun(argc, argv))
		return 2;
	if (pipe(queue) || PMI_Init(&none)) {
		fprintf(stderr, "the server of PMI does not answer\n");
		return 2;
	}
	snprintf(own, KEY, "m%d", here);
	PMIX_INFO_CREATE(info, 1);
	put(info, PMIX_HOSTNAME, own, PMIX_STRING);
	if ((rc = PMIx_server_init(&calls, info, 1)) != PMIX_SUCCESS)
		fail("begin to serve", rc);
	PMIX_LOAD_NSPACE(proc.nspace, job);
	describe(proc.nspace);
	for (int i = 0; i < count[here]; i++) {
		char **env = NULL;
		proc.rank = (pmix_rank_t)(first + i);
		rc = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL);
		if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
			rc = PMIx_server_setup_fork(&proc, &env);
		if (rc != PMIX_SUCCESS)
			fail("expect a process", rc);
		for (char **e = env; e && *e; e++)
			printf("%d\t%s\n", i, *e);
	}
	printf("ready\n");
	fflush(stdout);
	for (int number = 0;;) {
		struct pollfd on[2] = {{0, POLLIN, 0}, {queue[0], POLLIN, 0}};
		fence *f;
		if (poll(on, 2, -1) < 0)
			continue;
		if (on[1].revents && read(queue[0], &f, sizeof f) == sizeof f) {
			meet(f, number++);
			free(f);
		} else if (on[0].revents) {
			return 0; /* the work has ended */
		}
	}
}
