// SPDX-License-Identifier: Apache-2.0

package conn

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type entry -type setup -type client_counts -type server_counts -no-global-types conn bpf/conn.c
