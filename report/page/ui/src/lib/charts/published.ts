// SPDX-License-Identifier: Apache-2.0

// Without those that look like one another.
const marks = "abcdefghjkmnpqrstuvwxyz";

/** Boxes with figures of their own, each with the letter of its mark: a, b, ... */
export function letters(boxes: string[]): Map<string, string> {
  return new Map([...new Set(boxes)].map((b, i) => [b, marks[i] ?? String(i - marks.length + 1)]));
}

/** Marks on a line that must not hide each other: those too near to the ones before move to a level of their own. */
export function swarm<T extends { x: number }>(items: T[], size = 15): (T & { level: number })[] {
  const ends: number[] = [];
  return [...items].sort((a, b) => a.x - b.x).map((it) => {
    let level = ends.findIndex((end) => it.x - end >= size);
    if (level < 0) level = ends.length;
    ends[level] = it.x;
    return { ...it, level };
  });
}
