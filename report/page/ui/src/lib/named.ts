// SPDX-License-Identifier: Apache-2.0
// Names, for what is drawn of trials and of the tester.
import type { Record, SelfTest } from "../types";

/** What a trial offered, in frame/s. */
export const offered = (t: Record): number => t.load!.offered_fps;

/** The tester's ceiling in frame/s. */
export const ceiling = (s: SelfTest): number | undefined => s.ceiling_fps;

/** The procedure of a tester's trials of itself. */
export const selfTest = "self-test";
