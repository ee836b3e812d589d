// SPDX-License-Identifier: Apache-2.0

package lab

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../internal/bpf" -no-global-types dut bpf/dut.c
