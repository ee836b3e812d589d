// SPDX-License-Identifier: Apache-2.0

package afxdp

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type rest -no-global-types redirect bpf/redirect.c
