// SPDX-License-Identifier: Apache-2.0

package ledger

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../internal/bpf" -type key -no-global-types witness bpf/witness.c
