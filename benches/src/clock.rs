//! Clocks: CPU time of a thread and of the process, how busy the rest of the machine was, and ticks, which cost next to
//! nothing to read.

use std::time::{Duration, Instant};

/// Share of one core above which other processes spoil a sample in wall time.
const DISTURBANCE_CORES: f64 = 0.25;

/// The kernel counts busy time in steps of 10 ms; below this no judgement is made.
const SHORTEST_JUDGED: Duration = Duration::from_millis(100);

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor's time stamp, taken to run at one rate and alike on all cores; elsewhere nanoseconds.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        read(libc::CLOCK_MONOTONIC).as_nanos() as u64
    }
}

/// Measures what a tick is, in nanoseconds; takes 20 ms.
pub(crate) fn ns_per_tick() -> f64 {
    const SPAN: Duration = Duration::from_millis(20);
    let (first_ticks, first) = both_clocks();
    std::thread::sleep(SPAN);
    let (last_ticks, last) = both_clocks();
    (last - first).as_nanos() as f64 / (last_ticks - first_ticks) as f64
}

/// Both clocks at one moment: of several tries the one in which least time passed.
fn both_clocks() -> (u64, Instant) {
    const TRIES: usize = 20;
    let one_try = |_| {
        let start = ticks();
        let now = Instant::now();
        (ticks().wrapping_sub(start), start, now)
    };
    let (_, ticks, now) =
        (0..TRIES).map(one_try).min_by_key(|(gap, ..)| *gap).expect("there are tries");
    (ticks, now)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Stretch of wall time, with what other processes used of the machine in it.
#[derive(Debug)]
pub(crate) struct WallSpan {
    start: Instant,
    own: Duration,
    all: Duration,
}

impl WallSpan {
    pub(crate) fn start() -> WallSpan {
        let own = read(libc::CLOCK_PROCESS_CPUTIME_ID);
        WallSpan { all: machine_busy(), own, start: Instant::now() }
    }

    /// The wall time since the start, and whether the machine was otherwise quiet.
    pub(crate) fn stop(self) -> (Duration, bool) {
        let wall = self.start.elapsed();
        let own = read(libc::CLOCK_PROCESS_CPUTIME_ID) - self.own;
        let others = machine_busy().saturating_sub(self.all).saturating_sub(own);
        let share = others.as_secs_f64() / wall.as_secs_f64();
        (wall, wall < SHORTEST_JUDGED || share < DISTURBANCE_CORES)
    }
}

/// CPU time of all processes since boot; zero where the kernel does not tell.
fn machine_busy() -> Duration {
    const MS_PER_TICK: u64 = 10;
    const IDLE_COLUMNS: [usize; 2] = [3, 4];
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let columns = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: u64 = columns
        .take(8)
        .enumerate()
        .filter(|(column, _)| !IDLE_COLUMNS.contains(column))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * MS_PER_TICK)
}
