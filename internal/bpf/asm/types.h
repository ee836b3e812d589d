/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where a distribution keeps its asm headers per architecture, BPF has none. */
#include <asm-generic/types.h>
