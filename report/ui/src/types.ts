// SPDX-License-Identifier: Apache-2.0

// Made from the Go types by `go test ./report -run Types -update`; do not edit.

export interface Document {
  schema: number;
  version: string;
  id: string;
  start: string;
  role?: string;
  preset: string;
  verdict: string;
  sentence: string;
  summary?: string;
  powers?: Power[];
  skipped?: Skip[];
  caveat?: string;
  findings?: Finding[];
  how_sure: string[] | null;
  bottleneck?: Bottleneck;
  what_next?: string[];
  topology: string;
  kind: string;
  placement?: string;
  ablation?: Ablation;
  beside?: Comparison;
  study?: Study;
  published?: Citation[];
  watched?: Watched;
  metered?: string[];
  timeline?: Timeline;
  rows: Row[] | null;
  shared_warnings?: string[];
  warnings?: string[];
  self_tests?: SelfTest[];
  books: Books;
  budget?: Budget;
  not_measured?: string[];
  deviations?: string[];
  machines: Machine[] | null;
  environment?: Setting[];
  backend?: Pair[];
  metrics?: Metric[];
  plan?: unknown;
  seed: string;
  command: string;
}

export interface Record {
  schema: number;
  id: string;
  parent?: string;
  procedure: string;
  config: Pair[] | null;
  repeat: number;
  start: string;
  begin_ns: number;
  end_ns: number;
  phases?: Phase[];
  kpis?: KPI[];
  samples?: KPI[];
  verdict: string;
  reason?: string;
  values?: Value[];
  load?: Load;
  ledger?: Account;
  cpus?: CPU[];
  dut?: DUTWork;
  digests?: Digest[];
  energy?: Energy[];
  usage?: Usage[];
  copies?: Copy[];
  alerts?: Alert[];
  settings?: KnobSetting[];
  warnings?: string[];
  environment: number;
}

export interface Power {
  name: string;
  text: string;
}

export interface Skip {
  reason: string;
  points: string[] | null;
}

export interface Finding {
  criterion: Criterion;
  verdict: string;
  text: string;
  too_close_to_call?: boolean;
  point?: string;
  figure?: Value;
}

export interface Bottleneck {
  row: string;
  name: string;
  cause: string;
  sentence: string;
  evidence?: Term[];
}

export interface Ablation {
  recipe: string;
  metric: Metric;
  level: number;
  comparisons: number;
  places: AblationPlace[] | null;
  untested?: Ablated[];
  best?: Ablated[];
  harm?: Ablated[];
  advice: string[] | null;
  invalid_points?: number;
}

export interface Comparison {
  schema: number;
  version: string;
  level: number;
  comparisons: number;
  sides: ComparedSide[] | null;
  same?: Pair[];
  differences?: Differing[];
  notes?: string[];
  metrics: ComparedMetric[] | null;
}

export interface Study {
  where: string;
  caution?: string;
  panels: StudyPanel[] | null;
  why: string[] | null;
}

export interface Citation {
  box: string;
  text: string;
  said: string;
  here?: string[];
}

export interface Watched {
  hottest?: Reading;
  lowest_clock?: Reading;
  most_power?: Reading;
  busiest_cpu?: Busy;
  throttled?: string[];
  lost_frames?: PlaceLost[];
}

export interface Timeline {
  from_ns: number;
  step_ns: number;
  steps: number;
  rate_hz: number;
  panels?: Panel[];
  gaps?: Gap[];
  shorter_gaps?: number;
  remarks?: string[];
}

export interface Row {
  id: string;
  name: string;
  procedure: string;
  service: string;
  direction: string;
  frame_size: string;
  mean_frame_size?: number;
  rules: number;
  flows: number;
  networks?: number;
  tune?: string;
  ip?: number;
  beside?: string;
  verdict: string;
  reason?: string;
  bound: string;
  repeats: number;
  throughput_fps?: number;
  throughput_fps_lo?: number;
  throughput_fps_hi?: number;
  throughput_trials?: number;
  throughput_bps?: number;
  throughput_l1_bps?: number;
  line_rate_share?: number;
  line_rate_fps?: number;
  forwarding_rate_fps?: number;
  forwarding_rate_fps_lo?: number;
  forwarding_rate_fps_hi?: number;
  forwarding_rate_trials?: number;
  forwarding_rate_bps?: number;
  forwarding_rate_bound?: string;
  drop_rate_fps?: number;
  drop_rate_fps_lo?: number;
  drop_rate_fps_hi?: number;
  drop_rate_trials?: number;
  drop_rate_bound?: string;
  offered_fps?: number;
  ceiling_fps?: number;
  latency_p50_s?: number;
  latency_p99_s?: number;
  latency_max_s?: number;
  latency_load_fps?: number;
  stalls?: number;
  longest_stall_ns?: number;
  steal_ratio?: number;
  suite?: Suite;
  security?: Security;
  connections?: Connections;
  soak?: Soak;
  capture?: Capture;
  infer?: Infer;
  work?: Work;
  crypto?: Crypto;
  storage?: Storage;
  ids?: IDS;
  tunnel?: Tunnel;
  flood?: Flood;
  energy?: Joules[];
  ledger?: Account;
  warnings?: string[];
}

export interface SelfTest {
  name: string;
  ceiling_fps?: number;
  ceiling_cps?: number;
  verdict: string;
  reason?: string;
  warnings?: string[];
}

export interface Books {
  trials: number;
  closed: number;
  largest_unexplained: number;
  invalid_trials: number;
  starved_trials?: number;
}

export interface Budget {
  budget_s: number;
  spent_s: number;
  not_measured?: string[];
  ended?: string[];
}

export interface Machine {
  name: string;
  board: string;
  cpu: string;
  cpus: number;
  memory_bytes: number;
  kernel: string;
  machine: string;
  userland: string;
  os: string;
  virtual?: string;
  boot_id: string;
  kind: string;
  nics?: string[];
}

export interface Setting {
  key: string;
  before: string;
  after?: string;
}

export interface Pair {
  key: string;
  value: string;
}

export interface Metric {
  name: string;
  unit: string;
  better: number;
  exact?: boolean;
  help: string;
}

export interface Phase {
  name: string;
  begin_ns: number;
  end_ns: number;
}

export interface KPI {
  phase: string;
  begin_ns: number;
  end_ns: number;
  offered_fps: number;
  forwarded_fps: number;
  sent: number;
  lost: number;
  delay?: Delay;
  bad_sent?: number;
  bad_arrived: number;
}

export interface Value {
  metric: string;
  unit: string;
  value: number;
  lo?: number;
  hi?: number;
  n?: number;
  bound?: string;
}

export interface Load {
  mean_frame_size: number;
  streams: number;
  intended_fps?: number;
  offered_fps: number;
  peak_fps?: number;
  forwarded_fps: number;
  arrivals?: Arrivals;
  ramp?: Ramp;
  backend: string;
  batch: number;
  late?: number;
  late_lost?: number;
  stalls: number;
  longest_stall_ns: number;
  reordered?: number;
  duplicate?: number;
  broken?: number;
  foreign?: number;
  latency?: Histogram;
  arrival_gaps?: Histogram;
  meter_drops?: number;
  cpu_speed?: number;
  steal_ratio: number;
  observer_cpu_ns: number;
  observer_memory_bytes: number;
}

export interface Account {
  intended: number;
  accepted: number;
  refused: number;
  not_sent: number;
  received: number;
  duplicate?: number;
  terms: Term[] | null;
  passed: Term[] | null;
  in_flight: number;
  unexplained: number;
  settled: boolean;
  unread?: Unread[];
}

export interface CPU {
  cpu: number;
  role?: string;
  user: number;
  system: number;
  irq: number;
  softirq: number;
  steal: number;
  idle: number;
  polls?: number;
  squeezed?: number;
}

export interface DUTWork {
  threads?: number;
  ran?: number;
  waited?: number;
  state?: Pair[];
}

export interface Digest {
  series: number;
  n: number;
  min?: number;
  mean: number;
  max?: number;
  growth?: number;
}

export interface Energy {
  meter: string;
  covers: string;
  accuracy?: string;
  joules: number;
  seconds: number;
  readings: number;
  tester?: boolean;
  when?: string;
  trials?: number;
  per?: string;
  work?: number;
  idle_w?: number;
}

export interface Usage {
  subject: string;
  phase?: string;
  cpu_ns: number;
  user_ns: number;
  system_ns: number;
  peak_memory_bytes?: number;
  processes?: number;
  source: string;
}

export interface Copy {
  cpu: number;
  values: Value[] | null;
}

export interface Alert {
  rule: number;
  planted?: number;
  raised: number;
}

export interface KnobSetting {
  knob: string;
  target: string;
  asked: string;
  before?: string;
  got?: string;
  problem?: string;
}

export interface Criterion {
  text: string;
  metric: string;
  where: Pair[] | null;
  min?: number;
  max?: number;
  any?: string[];
  optional?: boolean;
}

export interface Term {
  place: string;
  host: string;
  name: string;
  from: string;
  n: number;
  link?: string;
}

export interface AblationPlace {
  name: string;
  whole: ComparedRow;
  knobs: KnobEffect[] | null;
}

export interface Ablated {
  name: string;
  knob: string;
  target: string;
  value: string;
  reason?: string;
}

export interface ComparedSide {
  name: string;
  runs: string[] | null;
  start: string[] | null;
  points: number;
  invalid: number;
}

export interface Differing {
  key: string;
  values: string[] | null;
}

export interface ComparedMetric extends Metric {
  also?: string[];
  rows: ComparedRow[] | null;
}

export interface StudyPanel {
  metric: string;
  unit: string;
  load: string;
  sent?: StudyPoint[];
  points: StudyPoint[] | null;
}

export interface Reading {
  value: number;
  of: string;
  trial: string;
}

export interface Busy {
  cpu: string;
  softirq: number;
  all_work: number;
  point: string;
  trials: string;
}

export interface PlaceLost {
  place: string;
  frames: number;
}

export interface Panel {
  kind: string;
  title: string;
  unit: string;
  lines: Line[] | null;
}

export interface Gap {
  from_ns: number;
  to_ns: number;
  cut_ns?: number;
}

export interface Suite {
  latency?: Quantile[];
  loss_highest_fps?: Figure;
  loss_ratio?: Figure;
  loss_free_fps?: Figure;
  loss_onset_fps?: Figure;
  back_to_back_frames?: Figure;
  burst_rate_fps?: Figure;
  buffer_time_s?: Figure;
  buffer_time_corrected_s?: Figure;
  recovery_s?: Figure;
  recovery_overload_fps?: Figure;
  recovery_load_fps?: Figure;
}

export interface Security {
  load: string;
  phases?: KPI[];
  sustain_offered_fps: Figure | null;
  sustain_forwarded_fps: Figure | null;
  sustain_loss_ratio: Figure | null;
  sustain_latency_min_s: Figure | null;
  sustain_latency_mean_s: Figure | null;
  sustain_latency_p99_s: Figure | null;
  sustain_latency_max_s: Figure | null;
  known_bad_sent: Figure | null;
  known_bad_blocked?: Figure;
  known_bad_arrived: Figure | null;
}

export interface Connections {
  mode: string;
  response_size: number;
  rate?: number;
  connections_cps?: Figure;
  connections_overload_cps?: Figure;
  connections_ceiling_cps?: Figure;
  connections_offered_cps?: Figure;
  connections_complete_cps?: Figure;
  connections_opened?: Figure;
  connections_concurrent?: Figure;
  connections_failed?: Figure;
  handshake_p50_s?: Figure;
  handshake_p99_s?: Figure;
  ttfb_p50_s?: Figure;
  ttfb_p99_s?: Figure;
  ttfb_max_s?: Figure;
  goodput_bps?: Figure;
  conntrack_entries?: Figure;
  conntrack_most?: Figure;
  gave?: string[];
}

export interface Soak {
  class: string;
  stress_ng?: string;
  passed: number;
  failed: number;
  skipped: number;
  known: number;
  broken_at?: string;
  meter?: string;
  stressors?: Stressor[];
}

export interface Capture {
  subject: string;
  payload_size?: number;
  rate: string;
  packets?: number;
  duration?: string;
  burst?: number;
  buffer?: number;
  method: string;
  lossless_fps?: Figure;
  lossless_bps?: Figure;
  lossless_l1_bps?: Figure;
  counted_0_1pct_fps?: Figure;
  counted_0_5pct_fps?: Figure;
  counting_overload_fps?: Figure;
  capture_offered_fps?: Figure;
  frames_offered?: Figure;
  frames_counted?: Figure;
  frames_at_end?: Figure;
  frames_lag?: Figure;
  drain_s?: Figure;
  frames_lost?: Figure;
  drops_before?: Figure;
  drops_kernel?: Figure;
  drops_subject?: Figure;
  frames_unexplained?: Figure;
  subject_cpu_per_frame_s?: Figure;
  subject_cpu_share?: Figure;
  host_cpu_per_frame_s?: Figure;
  host_cpu_above_per_frame_s?: Figure;
  subject_memory_bytes?: Figure;
  subject_processes?: Figure;
  startup_s?: Figure;
  first_frame_s?: Figure;
  main_cpu_share?: Figure;
  main_memory_bytes?: Figure;
  published?: Published[];
}

export interface Infer {
  model: string;
  runtime: string;
  window: string;
  batch: number;
  cpus: number;
  rate?: string;
  buffer?: number;
  frame_size?: string;
  windows_per_s?: Figure;
  window_s?: Figure;
  model_s?: Figure;
  model_cpu_s?: Figure;
  features_per_frame_s?: Figure;
  outputs_compared?: Figure;
  outputs_differ?: Figure;
  capture_offered_fps?: Figure;
  bare_lost_ratio?: Figure;
  detector_lost_ratio?: Figure;
  drops_added_ratio?: Figure;
  cpu_added_per_frame_s?: Figure;
  detected_windows_per_s?: Figure;
  model_wait_share?: Figure;
  drain_s?: Figure;
  subject_memory_bytes?: Figure;
  startup_s?: Figure;
}

export interface Work {
  procedure: string;
  title: string;
  setting: string;
  program: string;
  cpus: string;
  copies?: Figure;
  of?: string[];
  figures: WorkFigure[] | null;
  work_cpu_s?: Figure;
  subject_memory_bytes?: Figure;
  clock_share?: number;
  curve?: WorkCurve;
  published?: PublishedWork[];
}

export interface Crypto {
  path: string;
  cipher: string;
  parallel: string;
  block?: string;
  driver?: string;
  cpu_features?: string;
  known_answer?: string;
  copies?: Figure;
  encrypt_bytes_per_s?: Figure;
  decrypt_bytes_per_s?: Figure;
  signs_per_s?: Figure;
  verifies_per_s?: Figure;
  agreements_per_s?: Figure;
  keygens_per_s?: Figure;
  encapsulations_per_s?: Figure;
  decapsulations_per_s?: Figure;
  published_ciphers?: PublishedCipher[];
}

export interface Storage {
  device: string;
  cipher: string;
  key_bits?: string;
  cipher_spec?: string;
  programs?: string;
  proven?: boolean;
  patterns: StoragePattern[] | null;
}

export interface IDS {
  subject: string;
  rules: string;
  traffic: string;
  flood?: string;
  rate: string;
  duration?: string;
  ring?: string;
  ids_rate_bps?: Figure;
  ids_rate_fps?: Figure;
  idle_detected_ratio?: Figure;
  blind_bps?: Figure;
  capture_offered_bps?: Figure;
  frames_offered?: Figure;
  frames_lost?: Figure;
  drops_before?: Figure;
  drops_kernel?: Figure;
  drops_subject?: Figure;
  frames_unexplained?: Figure;
  attacks_planted?: Figure;
  attacks_detected?: Figure;
  detected_ratio?: Figure;
  memory_drops?: Figure;
  rules_loaded?: Figure;
  rules_failed?: Figure;
  startup_s?: Figure;
  subject_memory_bytes?: Figure;
  subject_cpu_per_frame_s?: Figure;
  subject_cpu_share?: Figure;
  host_cpu_per_frame_s?: Figure;
  host_cpu_above_per_frame_s?: Figure;
  loads?: IDSLoad[];
}

export interface Tunnel {
  tunnel: string;
  cipher?: string;
  offloads: string;
  protocol: string;
  connections: string;
  userland?: string;
  goodput_bps?: Figure;
  baseline_goodput_bps?: Figure;
  goodput_share?: Figure;
  cpu_per_mbit_s?: Figure;
  baseline_cpu_per_mbit_s?: Figure;
  daemon_cpu_per_mbit_s?: Figure;
  datagrams_lost_ratio?: Figure;
  handshake_s?: Figure;
  startup_s?: Figure;
  baseline_forwarding_fps?: Figure;
  published?: string;
}

export interface Flood {
  kind: string;
  rate: string;
  benign: string;
  sources: string;
  phases?: KPI[];
  flood_borne_fps?: Figure;
  benign_survival_ratio?: Figure;
  flood_recovery_s?: Figure;
  flood_offered_fps?: Figure;
  flood_forwarded_fps?: Figure;
  flood_sent?: Figure;
  flood_arrived?: Figure;
  benign_offered_bps?: Figure;
  benign_latency_p99_s?: Figure;
  benign_latency_before_p99_s?: Figure;
  flood_cpu_ratio?: Figure;
  sensor?: string;
  sensor_seen_ratio?: Figure;
  sensor_missed?: Figure;
  conntrack_entries?: Figure;
  conntrack_most?: Figure;
  conntrack_insert_failed?: Figure;
  conntrack_early_drop?: Figure;
}

export interface Joules {
  meter: string;
  covers: string;
  accuracy?: string;
  per: string;
  when?: string;
  power_mean_w: number;
  idle_w?: number;
  joules_per: number;
  joules_per_above_idle?: number;
  trials: number;
  readings: number;
}

export interface Delay {
  min_s: number;
  mean_s: number;
  p99_s: number;
  max_s: number;
}

export interface Arrivals {
  settled_ns: number;
  steady_ns: number;
  falling?: boolean;
  beyond_frames: number;
  drained_frames: number;
  lag_ns?: number;
}

export interface Ramp {
  lasts_ns: number;
  sent_frames: number;
  lost_frames: number;
}

export interface Histogram {
  upper_s: number[] | null;
  count: number[] | null;
}

export interface Unread {
  host: string;
  port: string;
  counter: string;
  n: number;
  why: string;
}

export interface ComparedRow {
  procedure: string;
  config: Pair[] | null;
  side: string;
  samples: string;
  base: ComparedValue;
  other: ComparedValue;
  verdict: string;
  relative: boolean;
  effect: number;
  effect_bound?: string;
  effect_lo?: number;
  effect_hi?: number;
  p?: number;
  p_holm?: number;
  spread?: number;
  warnings?: string[];
}

export interface KnobEffect {
  knob: Ablated;
  in_recipe: ComparedRow;
  alone: ComparedRow;
}

export interface StudyPoint {
  subject?: string;
  payload_size: number;
  kind: string;
  value: number;
  lo?: number;
  hi?: number;
  n: number;
  note?: string;
}

export interface Line {
  row?: string;
  name: string;
  mean?: (number | null)[];
  lo?: (number | null)[];
  hi?: (number | null)[];
  in_gaps?: (number | null)[];
  marks?: Mark[];
}

export interface Quantile {
  name: string;
  value: number;
  lo?: number;
  hi?: number;
  n: number;
}

export interface Figure {
  value: number;
  lo?: number;
  hi?: number;
  n: number;
  bound?: string;
}

export interface Stressor {
  name: string;
  verdict: string;
  known?: boolean;
  reason?: string;
  bogo_ops?: number;
  bogo_ops_rate?: number;
  bogo_ops_cpu_rate?: number;
  clock_share?: number;
  cpu_s?: number;
  peak_memory_bytes?: number;
  temperature_max?: number;
  power_mean_w?: number;
  throttle_events?: number;
  standstill_s?: number;
  warnings?: string[];
}

export interface Published {
  source: string;
  metric: string;
  value: number;
  unit: string;
  here?: number;
  lo?: number;
  hi?: number;
  note?: string;
  caution?: string;
}

export interface WorkFigure {
  metric: string;
  what: string;
  unit: string;
  figure: Figure;
  slowest_copy?: number;
  fastest_copy?: number;
}

export interface WorkCurve {
  of: string;
  of_unit: string;
  metric: string;
  what: string;
  unit: string;
  points: WorkPoint[] | null;
}

export interface PublishedWork {
  box: string;
  metric?: string;
  value?: number;
  text: string;
  said: string;
}

export interface PublishedCipher {
  box: string;
  encrypt_bytes_per_s?: number;
  decrypt_bytes_per_s?: number;
  said: string;
}

export interface StoragePattern {
  pattern: string;
  unit: string;
  plain?: Figure;
  luks2?: Figure;
  share?: Figure;
  plain_p99_s?: Figure;
  luks2_p99_s?: Figure;
}

export interface IDSLoad {
  id: string;
  offered_bps: number;
  lost_ratio: number;
  planted?: number;
  detected_ratio?: number;
}

export interface ComparedValue {
  median: number;
  lo?: number;
  hi?: number;
  bound?: string;
  samples: number[] | null;
}

export interface Mark {
  at_ns: number;
  value: number;
}

export interface WorkPoint {
  at: number;
  figure: Figure;
}

export interface PageData {
  document: Document;
  records: Record[] | null;
}
