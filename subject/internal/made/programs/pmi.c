// SPDX-License-Identifier: Apache-2.0
/* The calls of PMI-1 that Open MPI's component flux makes, as lines over the socket whose
   descriptor is PMI_FD. Processes of a machine have ranks that follow each other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, FAIL = -1, NAME = 256, KEY = 64, VALUE = 1024, LINE = 4096 };

static int fd = -1;

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);
	return text ? atoi(text) : otherwise;
}

/* ask sends a line, and reads the answer's line in its place, which must begin with want. */
static int ask(char *line, const char *want)
{
	size_t at = 0, all = strlen(line);
	if (fd < 0)
		return FAIL;
	while (at < all) {
		ssize_t n = write(fd, line + at, all - at);
		if (n < 0 && errno != EINTR)
			return FAIL;
		at += n > 0 ? (size_t)n : 0;
	}
	for (at = 0; at < LINE - 1;) {
		ssize_t n = read(fd, line + at, 1);
		if (n == 0 || (n < 0 && errno != EINTR))
			return FAIL;
		if (n == 1 && line[at++] == '\n')
			break;
	}
	line[at] = 0;
	return strncmp(line, want, strlen(want)) == 0 ? OK : FAIL;
}

/* part copies what follows name in a line, up to one of ends. */
static int part(const char *line, const char *name, const char *ends, char *to, int most)
{
	const char *from = strstr(line, name);
	size_t n;
	if (!from)
		return FAIL;
	from += strlen(name);
	n = strcspn(from, ends);
	if (n >= (size_t)most)
		return FAIL;
	memcpy(to, from, n);
	to[n] = 0;
	return OK;
}

int PMI_Init(int *spawned)
{
	char line[LINE] = "cmd=init pmi_version=1 pmi_subversion=1\n";
	fd = number("PMI_FD", -1);
	*spawned = 0;
	return ask(line, "cmd=response_to_init ");
}

int PMI_Initialized(int *is)
{
	*is = fd >= 0;
	return OK;
}

int PMI_Finalize(void)
{
	char line[LINE] = "cmd=finalize\n";
	int rc = ask(line, "cmd=finalize_ack");
	fd = -1;
	return rc;
}

int PMI_Abort(int code, const char *message)
{
	char line[LINE] = "cmd=abort\n";
	fprintf(stderr, "%s\n", message ? message : "it gave up");
	if (fd >= 0 && write(fd, line, strlen(line)) < 0)
		perror("pmi");
	_exit(code ? code : 1);
}

int PMI_Get_rank(int *rank)
{
	*rank = number("PMI_RANK", 0);
	return OK;
}

int PMI_Get_size(int *size)
{
	*size = number("PMI_SIZE", 1);
	return OK;
}

int PMI_Get_universe_size(int *size) { return PMI_Get_size(size); }

int PMI_Get_appnum(int *number)
{
	*number = 0;
	return OK;
}

int PMI_Get_clique_size(int *size)
{
	*size = number("BOXDYNO_LOCAL", 1);
	return OK;
}

int PMI_Get_clique_ranks(int *ranks, int length)
{
	for (int i = 0; i < length; i++)
		ranks[i] = number("BOXDYNO_FIRST", 0) + i;
	return OK;
}

int PMI_Barrier(void)
{
	char line[LINE] = "cmd=barrier_in\n";
	return ask(line, "cmd=barrier_out");
}

int PMI_KVS_Get_my_name(char *name, int length)
{
	char line[LINE] = "cmd=get_my_kvsname\n";
	return ask(line, "cmd=my_kvsname ") == OK ? part(line, " kvsname=", " \n", name, length) : FAIL;
}

int PMI_KVS_Get_name_length_max(int *length)
{
	*length = NAME;
	return OK;
}

int PMI_KVS_Get_key_length_max(int *length)
{
	*length = KEY;
	return OK;
}

int PMI_KVS_Get_value_length_max(int *length)
{
	*length = VALUE;
	return OK;
}

int PMI_KVS_Put(const char *name, const char *key, const char *value)
{
	char line[LINE];
	int n = snprintf(line, LINE, "cmd=put kvsname=%s key=%s value=%s\n", name, key, value);
	return n > 0 && n < LINE ? ask(line, "cmd=put_result rc=0") : FAIL;
}

int PMI_KVS_Commit(const char *name)
{
	(void)name;
	return OK;
}

int PMI_KVS_Get(const char *name, const char *key, char *value, int length)
{
	char line[LINE];
	int n = snprintf(line, LINE, "cmd=get kvsname=%s key=%s\n", name, key);
	if (n <= 0 || n >= LINE || ask(line, "cmd=get_result rc=0") != OK)
		return FAIL;
	return part(line, " value=", "\n", value, length); /* with its blanks */
}
