// SPDX-License-Identifier: Apache-2.0

package xdp

//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type lane -type schedule -no-global-types sender bpf/sender.c
//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type schedule -type cursor -type draw -type field -type window -no-global-types replay bpf/replay.c
//go:generate go tool bpf2go -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../internal/bpf -I../internal/bpf" -type stream -type mark -type times -type rest -type progress -no-global-types meter bpf/meter.c
