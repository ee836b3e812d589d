// SPDX-License-Identifier: Apache-2.0
/*
 * The plain AF_PACKET sender that the packet backend is measured against:
 * prebuilt frames, sendmmsg(2) past the queueing discipline, nothing per frame.
 *
 *	cc -O2 -o sendmmsg sendmmsg.c
 *	sendmmsg -i PORT [-s OCTETS | -f FILE] [-t SECONDS] [-b BATCH]
 *
 * -s  frame size, octets with FCS: one UDP frame, over and over (64)
 * -f  a classic pcap file of Ethernet frames, over and over, in place of -s
 * -t  how long to send (1)
 * -b  frames of a system call (256)
 *
 * It prints "frames N refused N seconds S": frames that the port took, those
 * that it did not, and the time from the first call to the last.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FCS = 4, SEND_BUFFER = 8 << 20, MOST_BATCH = 1024 };

static void fail(const char *what)
{
	fprintf(stderr, "sendmmsg: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void usage(const char *why)
{
	fprintf(stderr, "sendmmsg: %s: sendmmsg -i PORT [-s OCTETS | -f FILE] [-t SECONDS] [-b BATCH]\n", why);
	exit(2);
}

static struct iovec *frames;
static size_t count;

static void add(void *octets, size_t n)
{
	if (!(count & (count - 1))) { /* the room doubles */
		frames = realloc(frames, 2 * (count ? count : 1) * sizeof(*frames));
		if (!frames)
			fail("make room for frames");
	}
	frames[count].iov_base = octets;
	frames[count++].iov_len = n;
}

/* One UDP frame from 198.18.0.2 to 198.19.0.2, port 9, without a UDP checksum. */
static void build(size_t size)
{
	static const uint8_t head[] = {
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
		0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 19, 0, 2,
		0x27, 0x10, 0, 9, 0, 0, 0, 0,
	};
	size_t n = size - FCS;
	uint8_t *b = calloc(1, n);
	uint32_t sum = 0;

	if (!b)
		fail("make a frame");
	memcpy(b, head, sizeof(head));
	b[16] = (n - 14) >> 8, b[17] = n - 14;
	b[38] = (n - 34) >> 8, b[39] = n - 34;
	for (int i = 14; i < 34; i += 2)
		sum += b[i] << 8 | b[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	b[24] = sum >> 8, b[25] = sum;
	add(b, n);
}

/* All frames of a capture of this machine's byte order. */
static void load(const char *path)
{
	uint32_t head[6], record[4];
	FILE *f = fopen(path, "rb");

	if (!f)
		fail(path);
	if (fread(head, sizeof(head), 1, f) != 1 || (head[0] != 0xa1b2c3d4 && head[0] != 0xa1b23c4d) || head[5] != 1)
		usage("-f wants a classic pcap file of Ethernet frames in this machine's byte order");
	while (fread(record, sizeof(record), 1, f) == 1) {
		uint8_t *b;

		if (record[2] < 14 || record[2] > 1 << 18)
			usage("-f: a packet's length is not an Ethernet frame's");
		b = malloc(record[2]);
		if (!b || fread(b, record[2], 1, f) != 1)
			fail(path);
		add(b, record[2]);
	}
	fclose(f);
	if (!count)
		usage("-f: the file has no frames");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	const char *port = NULL, *file = NULL;
	long size = 64, batch = 256;
	double seconds = 1, begin, end, at;
	uint64_t sent = 0, refused = 0;
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	static struct mmsghdr msgs[MOST_BATCH];
	int fd, c, on = 1, buffer = SEND_BUFFER;

	while ((c = getopt(argc, argv, "i:s:f:t:b:")) != -1) {
		switch (c) {
		case 'i': port = optarg; break;
		case 's': size = atol(optarg); break;
		case 'f': file = optarg; break;
		case 't': seconds = atof(optarg); break;
		case 'b': batch = atol(optarg); break;
		default: usage("unknown flag");
		}
	}
	if (!port || optind != argc)
		usage("-i PORT is needed");
	if (size < 64 || size > 1518)
		usage("-s is 64 to 1518");
	if (batch < 1 || batch > MOST_BATCH)
		usage("-b is 1 to 1024");
	if (!(seconds > 0))
		usage("-t is above 0");
	if (file)
		load(file);
	else
		build(size);

	to.sll_ifindex = if_nametoindex(port);
	if (!to.sll_ifindex)
		fail(port);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0)
		fail("open a packet socket");
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))
		fail("go past the queueing discipline");
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
		fail("set the socket's buffer");
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("bind to the port");

	size_t next = 0;
	begin = at = now();
	for (end = begin + seconds; at < end; at = now()) {
		long done = 0;

		for (long i = 0; i < batch; i++) {
			msgs[i].msg_hdr.msg_iov = &frames[next];
			msgs[i].msg_hdr.msg_iovlen = 1;
			if (++next == count)
				next = 0;
		}
		while (done < batch) {
			int n = sendmmsg(fd, msgs + done, batch - done, 0);

			if (n >= 0) {
				done += n;
				sent += n;
			} else if (errno == ENOBUFS || errno == EAGAIN || errno == EMSGSIZE) {
				done++;
				refused++;
			} else if (errno != EINTR) {
				fail("send");
			}
		}
	}
	printf("frames %llu refused %llu seconds %.6f\n", (unsigned long long)sent, (unsigned long long)refused, at - begin);
	return 0;
}
