// SPDX-License-Identifier: Apache-2.0

package service

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../internal/bpf" -no-global-types drop bpf/drop.c
