// SPDX-License-Identifier: Apache-2.0

package roll

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type mark -type slot -type sums -no-global-types roll bpf/roll.c
