// SPDX-License-Identifier: Apache-2.0

// Made from the document's JSON schema by npm run types in report/page/ui; do not edit.

export interface PageData {
  document: Document;
  records: Record[] | null;
}
export interface Document {
  ablation?: Ablation;
  backend?: Pair[];
  beside?: Comparison;
  books: Books;
  bottleneck?: Bottleneck;
  box?: string;
  budget?: Budget;
  caveat?: string;
  cited?: string[];
  command: string;
  deviations?: string[];
  environment?: Setting[];
  findings?: Finding[];
  how_sure: string[] | null;
  id: string;
  kind: string;
  machines: Machine[] | null;
  metered?: string[];
  metrics?: Metric[];
  not_measured?: string[];
  placement?: string;
  plan?: unknown;
  powers?: Power[];
  preset: string;
  published?: Citation[];
  role?: string;
  rows: Row[] | null;
  schema: number;
  seed: string;
  self_tests?: SelfTest[];
  sentence: string;
  shared_warnings?: string[];
  skipped?: Skip[];
  start: string;
  study?: Study;
  summary?: string;
  tables?: Table[];
  timeline?: Timeline;
  topology: string;
  verdict: string;
  version: string;
  warnings?: string[];
  watched?: Watched;
  what_next?: string[];
}
export interface Ablation {
  advice: string[] | null;
  best?: Ablated[];
  comparisons: number;
  harm?: Ablated[];
  invalid_points?: number;
  level: number;
  metric: Metric;
  places: AblationPlace[] | null;
  recipe: string;
  tables?: Table[];
  untested?: Ablated[];
}
export interface Ablated {
  knob: string;
  name: string;
  reason?: string;
  target: string;
  value: string;
}
export interface Metric {
  better: number;
  exact?: boolean;
  group?: string;
  heads?: boolean;
  help: string;
  interval?: string;
  label?: string;
  name: string;
  of?: string;
  share?: boolean;
  unit: string;
}
export interface AblationPlace {
  knobs: KnobEffect[] | null;
  name: string;
  whole: ComparedRow;
}
export interface KnobEffect {
  alone: ComparedRow;
  in_recipe: ComparedRow;
  knob: Ablated;
}
export interface ComparedRow {
  base: ComparedValue;
  config: Pair[] | null;
  effect: number;
  effect_bound?: string;
  effect_hi?: number;
  effect_lo?: number;
  other: ComparedValue;
  p?: number;
  p_holm?: number;
  procedure: string;
  relative: boolean;
  samples: string;
  side: string;
  spread?: number;
  verdict: string;
  warnings?: string[];
}
export interface ComparedValue {
  bound?: string;
  hi?: number;
  lo?: number;
  median: number;
  samples: number[] | null;
}
export interface Pair {
  key: string;
  value: string;
}
export interface Table {
  columns: Column[] | null;
  ids: string[] | null;
  notes?: Note[];
  rows: Cell[][] | null;
  title: string;
}
export interface Column {
  better?: number;
  heads?: boolean;
  help?: string;
  interval?: string;
  label: string;
  metric?: boolean;
  name: string;
  share?: boolean;
  unit?: string;
}
export interface Note {
  mark: string;
  text: string;
}
export interface Cell {
  bound?: string;
  hi?: number;
  interval?: string;
  lo?: number;
  n?: number;
  text: string;
  value?: number;
}
export interface Comparison {
  comparisons: number;
  differences?: Differing[];
  level: number;
  metrics: ComparedMetric[] | null;
  notes?: string[];
  same?: Pair[];
  schema: number;
  sides: ComparedSide[] | null;
  version: string;
}
export interface Differing {
  key: string;
  values: string[] | null;
}
export interface ComparedMetric {
  also?: string[];
  better: number;
  exact?: boolean;
  group?: string;
  heads?: boolean;
  help: string;
  interval?: string;
  label?: string;
  name: string;
  of?: string;
  rows: ComparedRow[] | null;
  share?: boolean;
  unit: string;
}
export interface ComparedSide {
  invalid: number;
  name: string;
  points: number;
  runs: string[] | null;
  start: string[] | null;
}
export interface Books {
  closed: number;
  invalid_trials: number;
  largest_unexplained: number;
  starved_trials?: number;
  trials: number;
}
export interface Bottleneck {
  cause: string;
  evidence?: Term[];
  name: string;
  row: string;
  sentence: string;
}
export interface Term {
  from: string;
  host: string;
  link?: string;
  n: number;
  name: string;
  place: string;
}
export interface Budget {
  budget_s: number;
  ended?: string[];
  not_measured?: string[];
  spent_s: number;
}
export interface Setting {
  after?: string;
  before: string;
  key: string;
}
export interface Finding {
  criterion: Criterion;
  figure?: Value;
  point?: string;
  text: string;
  too_close_to_call?: boolean;
  verdict: string;
}
export interface Criterion {
  any?: string[];
  max?: number;
  metric: string;
  min?: number;
  optional?: boolean;
  text: string;
  where: Pair[] | null;
}
export interface Value {
  bound?: string;
  hi?: number;
  lo?: number;
  metric: string;
  n?: number;
  open?: boolean;
  unit: string;
  value: number;
}
export interface Machine {
  board: string;
  boot_id: string;
  cpu: string;
  cpus: number;
  kernel: string;
  kind: string;
  machine: string;
  memory_bytes: number;
  name: string;
  nics?: string[];
  os: string;
  userland: string;
  virtual?: string;
}
export interface Power {
  name: string;
  text: string;
}
export interface Citation {
  box: string;
  here?: string[];
  said: string;
  text: string;
}
export interface Row {
  beside?: string;
  bound: string;
  capture?: Capture;
  ceiling_fps?: number;
  connections?: Connections;
  crypto?: Crypto;
  direction: string;
  drop_rate_bound?: string;
  drop_rate_fps?: number;
  drop_rate_fps_hi?: number;
  drop_rate_fps_lo?: number;
  drop_rate_trials?: number;
  energy?: Joules[];
  energy_apart?: Apart[];
  figures?: {
    [k: string]: Figure;
  };
  flood?: Flood;
  flows: number;
  forwarding_rate_bound?: string;
  forwarding_rate_bps?: number;
  forwarding_rate_fps?: number;
  forwarding_rate_fps_hi?: number;
  forwarding_rate_fps_lo?: number;
  forwarding_rate_trials?: number;
  frame_size: string;
  id: string;
  ids?: IDS;
  infer?: Infer;
  ip?: number;
  latency_load_fps?: number;
  latency_max_s?: number;
  latency_p50_s?: number;
  latency_p99_s?: number;
  ledger?: Account;
  line_rate_fps?: number;
  line_rate_share?: number;
  longest_stall_ns?: number;
  mean_frame_size?: number;
  name: string;
  networks?: number;
  offered_fps?: number;
  procedure: string;
  reason?: string;
  repeats: number;
  rules: number;
  security?: Security;
  service: string;
  settings?: Pair[];
  soak?: Soak;
  stalls?: number;
  steal_ratio?: number;
  storage?: Storage;
  suite?: Suite;
  throughput_bps?: number;
  throughput_fps?: number;
  throughput_fps_hi?: number;
  throughput_fps_lo?: number;
  throughput_l1_bps?: number;
  throughput_trials?: number;
  tune?: string;
  tunnel?: Tunnel;
  verdict: string;
  warnings?: string[];
  work?: Work;
}
export interface Capture {
  buffer?: number;
  burst?: number;
  capture_offered_bps?: Figure;
  capture_offered_fps?: Figure;
  control_frames?: Figure;
  counted_0_1pct_fps?: Figure;
  counted_0_5pct_fps?: Figure;
  counted_0_5pct_l1_bps?: Figure;
  counting_overload_fps?: Figure;
  counting_rate_fps?: Figure;
  drain_s?: Figure;
  drops_before?: Figure;
  drops_kernel?: Figure;
  drops_subject?: Figure;
  duration?: string;
  first_frame_s?: Figure;
  frames_at_end?: Figure;
  frames_counted?: Figure;
  frames_lag?: Figure;
  frames_lost?: Figure;
  frames_offered?: Figure;
  frames_unexplained?: Figure;
  host_cpu_above_per_frame_s?: Figure;
  host_cpu_per_frame_s?: Figure;
  lossless_bps?: Figure;
  lossless_fps?: Figure;
  lossless_l1_bps?: Figure;
  main_cpu_share?: Figure;
  main_memory_bytes?: Figure;
  method: string;
  packets?: number;
  payload_size?: number;
  published?: Published[];
  rate: string;
  receive_cpu_s?: Figure;
  socket_s?: Figure;
  startup_cpu_s?: Figure;
  startup_s?: Figure;
  subject: string;
  subject_cpu_per_frame_s?: Figure;
  subject_cpu_s?: Figure;
  subject_cpu_share?: Figure;
  subject_memory_bytes?: Figure;
  subject_processes?: Figure;
  uncounted_ratio?: Figure;
}
export interface Figure {
  bound?: string;
  hi?: number;
  lo?: number;
  n: number;
  open?: boolean;
  value: number;
}
export interface Published {
  caution?: string;
  here?: number;
  hi?: number;
  lo?: number;
  metric: string;
  note?: string;
  source: string;
  unit: string;
  value: number;
}
export interface Connections {
  connections_ceiling_cps?: Figure;
  connections_closed?: Figure;
  connections_complete_cps?: Figure;
  connections_concurrent?: Figure;
  connections_cps?: Figure;
  connections_failed?: Figure;
  connections_offered_cps?: Figure;
  connections_open?: Figure;
  connections_opened?: Figure;
  connections_overload_cps?: Figure;
  connections_unexplained?: Figure;
  conntrack_drop?: Figure;
  conntrack_early_drop?: Figure;
  conntrack_entries?: Figure;
  conntrack_insert_failed?: Figure;
  conntrack_invalid?: Figure;
  conntrack_most?: Figure;
  failed_incomplete?: Figure;
  failed_no_first_byte?: Figure;
  failed_no_syn_ack?: Figure;
  failed_reset?: Figure;
  failed_unclosed?: Figure;
  gave?: string[];
  goodput_bps?: Figure;
  handshake_p50_s?: Figure;
  handshake_p99_s?: Figure;
  mode: string;
  rate?: number;
  response_size: number;
  stray_segments?: Figure;
  syns_at_server?: Figure;
  ttfb_max_s?: Figure;
  ttfb_p50_s?: Figure;
  ttfb_p99_s?: Figure;
}
export interface Crypto {
  agreements_per_s?: Figure;
  block?: string;
  cipher: string;
  copies?: Figure;
  cpu_features?: string;
  decapsulations_per_s?: Figure;
  decrypt_bytes_per_s?: Figure;
  driver?: string;
  encapsulations_per_s?: Figure;
  encrypt_bytes_per_s?: Figure;
  keygens_per_s?: Figure;
  known_answer?: string;
  parallel: string;
  path: string;
  published_ciphers?: PublishedCipher[];
  signs_per_s?: Figure;
  subject_memory_bytes?: Figure;
  verifies_per_s?: Figure;
  work_cpu_s?: Figure;
  work_s?: Figure;
}
export interface PublishedCipher {
  box: string;
  decrypt_bytes_per_s?: number;
  encrypt_bytes_per_s?: number;
  said: string;
}
export interface Joules {
  accuracy?: string;
  covers: string;
  idle_w?: number;
  joules_per: number;
  joules_per_above_idle?: number;
  meter: string;
  of?: string;
  per: string;
  power_mean_w: number;
  readings: number;
  trials: number;
  when?: string;
}
export interface Apart {
  before_w?: number;
  boards: number;
  boards_w: number;
  idle_boards: number;
  idle_boards_w: number;
  meters: string[] | null;
  per: string;
  points: number;
  rate?: number;
  shared_before_w?: number;
  shared_w: number;
  when?: string;
}
export interface Flood {
  benign: string;
  benign_forwarded_bps?: Figure;
  benign_latency_before_p99_s?: Figure;
  benign_latency_p99_s?: Figure;
  benign_lost?: Figure;
  benign_lost_after?: Figure;
  benign_lost_before?: Figure;
  benign_offered_bps?: Figure;
  benign_offered_fps?: Figure;
  benign_sent?: Figure;
  benign_survival_ratio?: Figure;
  conntrack_drop?: Figure;
  conntrack_early_drop?: Figure;
  conntrack_entries?: Figure;
  conntrack_insert_failed?: Figure;
  conntrack_invalid?: Figure;
  conntrack_most?: Figure;
  flood_arrived?: Figure;
  flood_borne_fps?: Figure;
  flood_cpu_ratio?: Figure;
  flood_dropped?: Figure;
  flood_forwarded_fps?: Figure;
  flood_missed?: Figure;
  flood_offered_bps?: Figure;
  flood_offered_fps?: Figure;
  flood_recovery_s?: Figure;
  flood_seen_ratio?: Figure;
  flood_sent?: Figure;
  kind: string;
  phases?: KPI[];
  rate: string;
  sensor?: string;
  sensor_dropped?: Figure;
  sensor_missed?: Figure;
  sensor_seen_ratio?: Figure;
  service_failed?: Figure;
  service_failed_after?: Figure;
  service_failed_before?: Figure;
  service_latency_before_p99_s?: Figure;
  service_latency_p99_s?: Figure;
  service_recovery_s?: Figure;
  service_requests?: Figure;
  service_survival_ratio?: Figure;
  sources: string;
}
export interface KPI {
  bad_arrived: number;
  bad_sent?: number;
  begin_ns: number;
  delay?: Delay;
  end_ns: number;
  forwarded_fps: number;
  lost: number;
  offered_fps: number;
  phase: string;
  sent: number;
}
export interface Delay {
  max_s: number;
  mean_s: number;
  min_s: number;
  p99_s: number;
}
export interface IDS {
  attacks_detected?: Figure;
  attacks_planted?: Figure;
  blind_bps?: Figure;
  capture_offered_bps?: Figure;
  capture_offered_fps?: Figure;
  counting_overload_fps?: Figure;
  counting_rate_fps?: Figure;
  detected_ratio?: Figure;
  drain_s?: Figure;
  drops_before?: Figure;
  drops_kernel?: Figure;
  drops_subject?: Figure;
  duration?: string;
  first_frame_s?: Figure;
  flood?: string;
  frames_at_end?: Figure;
  frames_counted?: Figure;
  frames_lag?: Figure;
  frames_lost?: Figure;
  frames_offered?: Figure;
  frames_unexplained?: Figure;
  host_cpu_above_per_frame_s?: Figure;
  host_cpu_per_frame_s?: Figure;
  idle_detected_ratio?: Figure;
  ids_rate_bps?: Figure;
  ids_rate_fps?: Figure;
  loads?: IDSLoad[];
  memory_drops?: Figure;
  rate: string;
  receive_cpu_s?: Figure;
  ring?: string;
  rules: string;
  rules_failed?: Figure;
  rules_loaded?: Figure;
  socket_s?: Figure;
  startup_cpu_s?: Figure;
  startup_s?: Figure;
  stream_gaps?: Figure;
  subject: string;
  subject_cpu_per_frame_s?: Figure;
  subject_cpu_s?: Figure;
  subject_cpu_share?: Figure;
  subject_memory_bytes?: Figure;
  subject_processes?: Figure;
  traffic: string;
  uncounted_ratio?: Figure;
}
export interface IDSLoad {
  detected_ratio?: number;
  id: string;
  lost_ratio: number;
  offered_bps: number;
  planted?: number;
}
export interface Infer {
  bare_lost_ratio?: Figure;
  batch: number;
  buffer?: number;
  capture_offered_fps?: Figure;
  cpu_added_per_frame_s?: Figure;
  cpus: number;
  detected_windows_per_s?: Figure;
  detector_lost_ratio?: Figure;
  drain_s?: Figure;
  drops_added_ratio?: Figure;
  drops_before?: Figure;
  drops_kernel?: Figure;
  features_per_frame_s?: Figure;
  frame_size?: string;
  frames_counted?: Figure;
  frames_lag?: Figure;
  frames_lost?: Figure;
  frames_offered?: Figure;
  frames_per_window?: Figure;
  frames_unexplained?: Figure;
  model: string;
  model_cpu_s?: Figure;
  model_s?: Figure;
  model_wait_share?: Figure;
  outputs_compared?: Figure;
  outputs_differ?: Figure;
  rate?: string;
  runtime: string;
  startup_s?: Figure;
  subject_cpu_per_frame_s?: Figure;
  subject_memory_bytes?: Figure;
  uncounted_ratio?: Figure;
  window: string;
  window_s?: Figure;
  windows_per_s?: Figure;
}
export interface Account {
  accepted: number;
  duplicate?: number;
  in_flight: number;
  intended: number;
  not_sent: number;
  passed: Term[] | null;
  received: number;
  refused: number;
  settled: boolean;
  terms: Term[] | null;
  unexplained: number;
  unread?: Unread[];
}
export interface Unread {
  counter: string;
  host: string;
  n: number;
  port: string;
  why: string;
}
export interface Security {
  known_bad_arrived?: Figure;
  known_bad_blocked?: Figure;
  known_bad_sent?: Figure;
  load: string;
  phases?: KPI[];
  sustain_forwarded_fps?: Figure;
  sustain_latency_max_s?: Figure;
  sustain_latency_mean_s?: Figure;
  sustain_latency_min_s?: Figure;
  sustain_latency_p99_s?: Figure;
  sustain_loss_ratio?: Figure;
  sustain_offered_fps?: Figure;
}
export interface Soak {
  bogo_ops?: Figure;
  bogo_ops_cpu_rate?: Figure;
  bogo_ops_rate?: Figure;
  broken_at?: string;
  class: string;
  failed: number;
  known: number;
  meter?: string;
  passed: number;
  skipped: number;
  standstill_s?: Figure;
  stress_ng?: string;
  stressor_memory_bytes?: Figure;
  stressor_s?: Figure;
  stressors?: Stressor[];
  stressors_failed?: Figure;
  stressors_known?: Figure;
  stressors_passed?: Figure;
  stressors_skipped?: Figure;
}
export interface Stressor {
  bogo_ops?: number;
  bogo_ops_cpu_rate?: number;
  bogo_ops_rate?: number;
  clock_share?: number;
  cpu_s?: number;
  known?: boolean;
  name: string;
  peak_memory_bytes?: number;
  power_mean_w?: number;
  reason?: string;
  standstill_s?: number;
  temperature_max?: number;
  throttle_events?: number;
  verdict: string;
  warnings?: string[];
}
export interface Storage {
  cipher: string;
  cipher_spec?: string;
  device: string;
  key_bits?: string;
  luks2_randread_iops?: Figure;
  luks2_randread_p99_s?: Figure;
  luks2_randread_share?: Figure;
  luks2_randwrite_iops?: Figure;
  luks2_randwrite_p99_s?: Figure;
  luks2_randwrite_share?: Figure;
  luks2_read_bps?: Figure;
  luks2_read_octet_rate?: Figure;
  luks2_read_share?: Figure;
  luks2_write_bps?: Figure;
  luks2_write_octet_rate?: Figure;
  luks2_write_share?: Figure;
  patterns: StoragePattern[] | null;
  plain_randread_iops?: Figure;
  plain_randread_p99_s?: Figure;
  plain_randwrite_iops?: Figure;
  plain_randwrite_p99_s?: Figure;
  plain_read_octet_rate?: Figure;
  plain_write_octet_rate?: Figure;
  programs?: string;
  proven?: boolean;
  storage_known_answer?: Figure;
}
export interface StoragePattern {
  luks2?: Figure;
  luks2_p99_s?: Figure;
  pattern: string;
  plain?: Figure;
  plain_p99_s?: Figure;
  share?: Figure;
  unit: string;
}
export interface Suite {
  back_to_back_frames?: Figure;
  buffer_time_corrected_s?: Figure;
  buffer_time_s?: Figure;
  burst_rate_fps?: Figure;
  latency?: Quantile[];
  latency_p90_s?: Figure;
  latency_p999_s?: Figure;
  loss_free_fps?: Figure;
  loss_highest_fps?: Figure;
  loss_onset_fps?: Figure;
  loss_ratio?: Figure;
  recovery_load_fps?: Figure;
  recovery_overload_fps?: Figure;
  recovery_s?: Figure;
}
export interface Quantile {
  hi?: number;
  lo?: number;
  n: number;
  name: string;
  value: number;
}
export interface Tunnel {
  baseline_cpu_per_mbit_s?: Figure;
  baseline_forwarding_fps?: Figure;
  baseline_goodput_bps?: Figure;
  burst_frames?: Figure;
  burst_time_s?: Figure;
  cipher?: string;
  connections: string;
  cpu_per_mbit_s?: Figure;
  daemon_cpu_per_mbit_s?: Figure;
  datagrams_lost?: Figure;
  datagrams_lost_ratio?: Figure;
  datagrams_sent?: Figure;
  forwarding_share?: Figure;
  goodput_bps?: Figure;
  goodput_share?: Figure;
  handshake_s?: Figure;
  jitter_s?: Figure;
  offloads: string;
  pdr_0_1pct_fps?: Figure;
  pdr_0_5pct_fps?: Figure;
  protocol: string;
  published?: string;
  receiver_cpu_per_mbit_s?: Figure;
  retransmits?: Figure;
  sender_cpu_per_mbit_s?: Figure;
  sent_bps?: Figure;
  startup_s?: Figure;
  subject_memory_bytes?: Figure;
  tunnel: string;
  userland?: string;
}
export interface Work {
  bogo_ops?: Figure;
  bogo_ops_cpu_rate?: Figure;
  bogo_ops_rate?: Figure;
  cache_latency_s?: Figure;
  clock_share?: number;
  codec_speed?: Figure;
  compress_ips?: Figure;
  copies?: Figure;
  cpus: string;
  curve?: WorkCurve;
  decompress_ips?: Figure;
  dhrystones_per_s?: Figure;
  dmips?: Figure;
  encode_s?: Figure;
  encoded_bps?: Figure;
  encoded_bytes?: Figure;
  figures: WorkFigure[] | null;
  hash_rate?: Figure;
  hpl_block?: Figure;
  hpl_columns?: Figure;
  hpl_order?: Figure;
  hpl_rate?: Figure;
  hpl_residual?: Figure;
  hpl_rows?: Figure;
  hpl_s?: Figure;
  load_latency_s?: Figure;
  lock_s?: Figure;
  locked_bytes?: Figure;
  memory_copy_rate?: Figure;
  memory_latency_s?: Figure;
  memory_read_rate?: Figure;
  memory_write_rate?: Figure;
  of?: string[];
  procedure: string;
  program: string;
  published?: PublishedWork[];
  setting: string;
  stream_add_rate?: Figure;
  stream_copy_rate?: Figure;
  stream_scale_rate?: Figure;
  stream_triad_rate?: Figure;
  stressor_memory_bytes?: Figure;
  stressor_s?: Figure;
  subject_memory_bytes?: Figure;
  sysbench_events_per_s?: Figure;
  title: string;
  whetstones_per_s?: Figure;
  work_cpu_s?: Figure;
  work_s?: Figure;
}
export interface WorkCurve {
  metric: string;
  note?: string;
  of: string;
  of_unit: string;
  points: WorkPoint[] | null;
  unit: string;
  what: string;
}
export interface WorkPoint {
  at: number;
  figure: Figure;
}
export interface WorkFigure {
  fastest_copy?: number;
  figure: Figure;
  metric: string;
  slowest_copy?: number;
  unit: string;
  what: string;
}
export interface PublishedWork {
  box: string;
  metric?: string;
  said: string;
  text: string;
  value?: number;
}
export interface SelfTest {
  ceiling_cps?: number;
  ceiling_fps?: number;
  name: string;
  reason?: string;
  verdict: string;
  warnings?: string[];
}
export interface Skip {
  points: string[] | null;
  reason: string;
}
export interface Study {
  caution?: string;
  panels: StudyPanel[] | null;
  where: string;
  why: string[] | null;
}
export interface StudyPanel {
  load: string;
  metric: string;
  points: StudyPoint[] | null;
  sent?: StudyPoint[];
  unit: string;
}
export interface StudyPoint {
  hi?: number;
  kind: string;
  lo?: number;
  n: number;
  note?: string;
  payload_size: number;
  subject?: string;
  value: number;
}
export interface Timeline {
  first?: number;
  from_ns: number;
  gaps?: Gap[];
  panels?: Panel[];
  rate_hz: number;
  remarks?: string[];
  shorter_gaps?: number;
  step_ns: number;
  steps: number;
}
export interface Gap {
  cut_ns?: number;
  from_ns: number;
  to_ns: number;
}
export interface Panel {
  kind: string;
  lines: Line[] | null;
  title: string;
  unit: string;
}
export interface Line {
  hi?: (number | null)[];
  in_gaps?: (number | null)[];
  lo?: (number | null)[];
  marks?: Mark[];
  mean?: (number | null)[];
  name: string;
  row?: string;
}
export interface Mark {
  at_ns: number;
  value: number;
}
export interface Watched {
  busiest_cpu?: Busy;
  hottest?: Reading;
  lost_frames?: PlaceLost[];
  lowest_clock?: Reading;
  most_power?: Reading;
  throttled?: string[];
}
export interface Busy {
  all_work: number;
  cpu: string;
  point: string;
  softirq: number;
  trials: string;
}
export interface Reading {
  of: string;
  trial: string;
  value: number;
}
export interface PlaceLost {
  frames: number;
  place: string;
}
export interface Record {
  alerts?: Alert[];
  begin_ns: number;
  boards?: Board[];
  config: Pair[] | null;
  copies?: Copy[];
  cpus?: CPU[];
  digests?: Digest[];
  dut?: DUTWork;
  end_ns: number;
  energy?: Energy[];
  environment: number;
  id: string;
  kpis?: KPI[];
  ledger?: Account;
  left_ns?: number[];
  load?: Load;
  parent?: string;
  phases?: Phase[];
  procedure: string;
  reason?: string;
  repeat: number;
  samples?: KPI[];
  schema: number;
  settings?: ResultSetting[];
  start: string;
  usage?: Usage[];
  values?: Value[];
  verdict: string;
  warnings?: string[];
}
export interface Alert {
  planted?: number;
  raised: number;
  rule: number;
}
export interface Board {
  clock_error_ns?: number;
  config?: Pair[];
  copies?: Copy[];
  late_ns?: number;
  name: string;
  phases?: Phase[];
  reason?: string;
  temperature_celsius?: number;
  usage?: Usage[];
  values?: Value[];
  verdict: string;
  warnings?: string[];
}
export interface Copy {
  cpu: number;
  values: Value[] | null;
}
export interface Phase {
  begin_ns: number;
  end_ns: number;
  name: string;
}
export interface Usage {
  cpu_ns: number;
  peak_memory_bytes?: number;
  phase?: string;
  processes?: number;
  source: string;
  subject: string;
  system_ns: number;
  user_ns: number;
}
export interface CPU {
  cpu: number;
  idle: number;
  irq: number;
  polls?: number;
  rings?: boolean;
  role?: string;
  softirq: number;
  squeezed?: number;
  steal: number;
  system: number;
  user: number;
}
export interface Digest {
  growth?: number;
  max?: number;
  mean: number;
  min?: number;
  n: number;
  series: number;
}
export interface DUTWork {
  ran?: number;
  receive?: Receive;
  state?: Pair[];
  threads?: number;
  waited?: number;
}
export interface Receive {
  cpus: CPU[] | null;
  dropped?: number;
  ksoftirqd?: number;
  ran: number;
  waited?: number;
}
export interface Energy {
  accuracy?: string;
  covers: string;
  idle_w?: number;
  joules: number;
  meter: string;
  of?: string;
  per?: string;
  readings: number;
  seconds: number;
  tester?: boolean;
  trials?: number;
  when?: string;
  work?: number;
}
export interface Load {
  arrival_gaps?: Histogram;
  arrivals?: Arrivals;
  backend: string;
  batch: number;
  broken?: number;
  cpu_speed?: number;
  duplicate?: number;
  foreign?: number;
  forwarded_fps: number;
  intended_fps?: number;
  late?: number;
  late_lost?: number;
  latency?: Histogram;
  longest_stall_ns: number;
  mean_frame_size: number;
  meter_drops?: number;
  observer_cpu_ns: number;
  observer_memory_bytes: number;
  offered_fps: number;
  peak_fps?: number;
  ramp?: Ramp;
  reordered?: number;
  stalls: number;
  steal_ratio: number;
  streams: number;
}
export interface Histogram {
  count: number[] | null;
  upper_s: number[] | null;
}
export interface Arrivals {
  beyond_frames: number;
  drained_frames: number;
  falling?: boolean;
  lag_ns?: number;
  settled_ns: number;
  steady_ns: number;
}
export interface Ramp {
  lasts_ns: number;
  lost_frames: number;
  sent_frames: number;
}
export interface ResultSetting {
  asked: string;
  before?: string;
  got?: string;
  knob: string;
  problem?: string;
  target: string;
}
