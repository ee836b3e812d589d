/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What sender and meter share; keep in step with frame/build.go. */
#pragma once

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define MAGIC 0x6264796eu

#define ETH_LEN 14
#define IP4_LEN 20
#define IP6_LEN 40
#define UDP_LEN 8
#define SIG_LEN 18
#define LATE (1ull << 63) /* in a transmit time: the frame left behind its schedule */

#define LOAD16(p) (*(const u16 *)(p))
#define LOAD32(p) (*(const u32 *)(p))
#define LOAD64(p) (*(const u64 *)(p))
#define STORE16(p, x) (*(u16 *)(p) = (x))
#define STORE32(p, x) (*(u32 *)(p) = (x))
#define STORE64(p, x) (*(u64 *)(p) = (x))

/*
 * Verifiers of processors that load aligned numbers only (riscv64) take a frame to
 * begin 2 octets past a multiple of 8: its IP header is aligned, and the numbers of
 * a signature are not. p lies 2 octets past a multiple of 4.
 */
static __always_inline u32 load32_at2(const void *p)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return LOAD16(p) | (u32)LOAD16(p + 2) << 16;
#else
	return (u32)LOAD16(p) << 16 | LOAD16(p + 2);
#endif
}

static __always_inline void store32_at2(void *p, u32 x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	STORE16(p, x);
	STORE16(p + 2, x >> 16);
#else
	STORE16(p, x >> 16);
	STORE16(p + 2, x);
#endif
}

static __always_inline u64 load64_at2(const void *p)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return LOAD16(p) | (u64)LOAD32(p + 2) << 16 | (u64)LOAD16(p + 6) << 48;
#else
	return (u64)LOAD16(p) << 48 | (u64)LOAD32(p + 2) << 16 | LOAD16(p + 6);
#endif
}

static __always_inline void store64_at2(void *p, u64 x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	STORE16(p, x);
	STORE32(p + 2, x >> 16);
	STORE16(p + 6, x >> 48);
#else
	STORE16(p, x >> 48);
	STORE32(p + 2, x >> 16);
	STORE16(p + 6, x);
#endif
}

/*
 * The stream number in a signature. The mask changes nothing; verifiers that hold a
 * number with swapped octets for any number (Linux 6.1) need it for an index.
 */
static __always_inline u64 stream_number(void *sig)
{
	u64 n = bpf_ntohs(LOAD16(sig + 4));

	asm volatile("%0 &= 0xffff" : "+r"(n));
	return n;
}

#define ICMP6 58
#define HOP_BY_HOP 0

/* What a port keeps from the stack of what is no test frame's. */
enum { KEEPS_NOTHING, DROPS, SCREENS };

/*
 * Whether neighbours talk by the frame: to find each other (ARP, neighbour discovery), or
 * about multicast groups (MLD, behind the one option that it has). l3 follows EtherType
 * type.
 */
static __always_inline bool neighbours(u16 type, void *l3, void *data_end)
{
	u8 kind, next;

	if (type == bpf_htons(0x0806))
		return true;
	if (type != bpf_htons(0x86dd) || l3 + IP6_LEN + 1 > data_end)
		return false;
	next = *(u8 *)(l3 + 6);
	kind = *(u8 *)(l3 + IP6_LEN);
	if (next == ICMP6)
		return kind >= 133 && kind <= 137;
	if (next != HOP_BY_HOP || kind != ICMP6 || l3 + IP6_LEN + 9 > data_end || *(u8 *)(l3 + IP6_LEN + 1))
		return false;
	kind = *(u8 *)(l3 + IP6_LEN + 8);
	return (kind >= 130 && kind <= 132) || kind == 143;
}
