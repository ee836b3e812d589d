/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The buckets of histograms, as engine/internal/bucket/bucket.go has them. */
#pragma once

#include "common.h"

#define BUCKETS 976

/* log2 of v, which is at least 16. */
static __always_inline u32 log2_64(u64 v)
{
	u32 e = 0;

	if (v >> 32) { e += 32; v >>= 32; }
	if (v >> 16) { e += 16; v >>= 16; }
	if (v >> 8) { e += 8; v >>= 8; }
	if (v >> 4) { e += 4; v >>= 4; }
	if (v >> 2) { e += 2; v >>= 2; }
	if (v >> 1) e += 1;
	return e;
}

static __always_inline u32 bucket(u64 v)
{
	u32 e;

	if (v < 16)
		return v;
	e = log2_64(v);
	return (e - 3) * 16 + ((v >> (e - 4)) & 15);
}
