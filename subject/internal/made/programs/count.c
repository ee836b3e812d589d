// SPDX-License-Identifier: Apache-2.0

// Counts frames of a port with libpcap, as little as a program can do with them. It
// prints what count.py prints, and takes PORT FILTER BUFFER.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pcap/pcap.h>

static volatile sig_atomic_t over;
static unsigned long long count;

static void stop(int number)
{
	(void)number;
	over = 1;
}

static void one(u_char *user, const struct pcap_pkthdr *header, const u_char *frame)
{
	(void)user, (void)header, (void)frame;
	count++;
}

static void tell(pcap_t *p, const char *what)
{
	struct pcap_stat s;

	if (pcap_stats(p, &s) == 0)
		printf("{%s\"count\": %llu, \"kernel\": %u, \"port\": %u}\n", what, count, s.ps_drop, s.ps_ifdrop);
	else
		printf("{%s\"count\": %llu}\n", what, count);
	fflush(stdout);
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	return 1;
}

int main(int argc, char **argv)
{
	char why[PCAP_ERRBUF_SIZE];
	struct sigaction stopper = { .sa_handler = stop };
	struct bpf_program program;
	struct pollfd fd = { .events = POLLIN };
	long long due = 0;
	pcap_t *p;
	int status;

	if (argc != 4)
		return fail("usage", "PORT FILTER BUFFER");
	sigaction(SIGINT, &stopper, NULL);
	p = pcap_create(argv[1], why);
	if (!p)
		return fail(argv[1], why);
	pcap_set_snaplen(p, 65535);
	pcap_set_promisc(p, 1);
	pcap_set_timeout(p, 10);
	if (atoi(argv[3]) > 0)
		pcap_set_buffer_size(p, atoi(argv[3]));
	status = pcap_activate(p);
	if (status < 0)
		return fail(argv[1], pcap_geterr(p));
	if (pcap_compile(p, &program, argv[2], 1, PCAP_NETMASK_UNKNOWN) < 0 || pcap_setfilter(p, &program) < 0)
		return fail("filter", pcap_geterr(p));
	if (pcap_setnonblock(p, 1, why) < 0)
		return fail(argv[1], why);
	fd.fd = pcap_get_selectable_fd(p);
	tell(p, "\"ready\": true, ");
	while (!over) {
		if (poll(&fd, 1, 100) < 0 && errno != EINTR)
			return fail(argv[1], strerror(errno));
		if (pcap_dispatch(p, 4096, one, NULL) < 0)
			return fail(argv[1], pcap_geterr(p));
		if (now() >= due) {
			tell(p, "");
			due = now() + 100;
		}
	}
	tell(p, "\"end\": true, ");
	return 0;
}
