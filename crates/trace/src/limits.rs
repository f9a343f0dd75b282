//! Bounds of the reader: each table's and queue's largest size, and why this large.
//!
//! Together they stay below 200 MB of memory, whatever the capture holds; the windows of zstd
//! frames come on top.

/// Bytes that the reading thread takes at once: fits the second-level cache twice.
pub const BLOCK_BYTES: usize = 512 << 10;
/// Bytes of a file that are mapped at once: four huge pages, of which the first one was mostly seen
/// through the window before; few enough that the windows in use count little as the process's
/// memory.
pub const WINDOW_BYTES: usize = 8 << 20;
/// Blocks in flight between the threads.
pub const BLOCKS: usize = 6;
/// Events and calls handed to the threads of lenses at once: few enough to stay in a cache of the
/// processors, enough for what it costs to wake a thread (256 and 4096 took 5 % more CPU in all).
pub const LENS_CHUNK: usize = 1024;
/// Chunks of them, of all threads together; about 3 MB.
pub const LENS_CHUNKS: usize = 8;
/// Largest frame believed, bytes (libpcap's `MAXIMUM_SNAPLEN`).
pub const MAX_FRAME_BYTES: u32 = 256 << 10;
/// Largest window of a zstd frame: what zstd itself takes unless told otherwise, and what
/// `zstd --long` writes. The frame states it, and the decoder holds so much at once.
pub const MAX_ZSTD_WINDOW_BYTES: usize = 128 << 20;
/// Largest window of a zstd frame within another one: what every decoder is to take (RFC 8878
/// section 3.1.1.1.2), so that frames in frames do not add up.
pub const MAX_INNER_ZSTD_WINDOW_BYTES: usize = 8 << 20;
/// Connections followed at once; beyond, the one idle longest is given up.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Bytes held back behind a hole in one direction of a connection: a large receive window.
pub const MAX_HELD_BYTES: usize = 4 << 20;
/// Bytes held back behind holes in all connections.
pub const MAX_HELD_BYTES_TOTAL: usize = 32 << 20;
/// Bytes of IP fragments waiting for the rest (Linux `ipfrag_high_thresh`).
pub const MAX_FRAGMENT_BYTES: usize = 4 << 20;
/// Calls that wait for replies, duplicates or their turn; about 50 MB.
pub const MAX_OPEN_CALLS: usize = 200_000;
/// Answered calls kept so that duplicates and late retransmissions are recognised.
pub const MAX_SETTLING_CALLS: usize = 50_000;
/// How long an answered call waits for duplicates: above the longest minor timeout of a client
/// (Linux: 60 s for TCP).
pub const SETTLING_NS: i64 = 120_000_000_000;
/// How long a call without a reply is waited for after its last send: above the longest pause
/// between the retransmissions of a client (Linux: 10 minutes).
pub const UNANSWERED_NS: i64 = 660_000_000_000;
/// File handles remembered with their names.
pub const MAX_FILES: usize = 100_000;
/// Different lists of COMPOUND operations remembered.
pub const MAX_OPERATION_LISTS: usize = 4096;
/// Rows of one Arrow batch.
pub const BATCH_ROWS: usize = 65_536;
/// Bytes of names remembered for paths.
pub const MAX_NAMES_BYTES: usize = 16 << 20;
/// Directories of one path that are followed upwards: bounds cycles that wrong names may make.
pub const MAX_PATH_DEPTH: usize = 128;
/// Bytes kept of records under way in all connections.
pub const MAX_PARTIAL_BYTES_TOTAL: usize = 32 << 20;
/// Segments whose acknowledgement is awaited, in all connections: about 12 MB.
pub const MAX_FLIGHT_TOTAL: usize = 512 << 10;
/// Segments whose acknowledgement is awaited in one direction: a window of 4 MiB has 2900.
pub const MAX_FLIGHT: usize = 4096;
/// How long bytes behind a hole wait if nothing else tells that the hole stays: above five
/// timeouts of TCP in a row (RFC 6298: 0.2 s on Linux, doubled each time).
pub const HOLE_WAIT_NS: i64 = 10_000_000_000;
/// Bytes of a connection looked at before it is said to carry no RPC.
pub const NOT_RPC_BYTES: u64 = 32 << 10;
/// Time within which the same packet may be captured twice, ...
pub const DUPLICATE_NS: i64 = 1_000_000_000;
/// ... and where senders state no identification: nobody sends again so soon unasked.
pub const DUPLICATE_WITHOUT_ID_NS: i64 = 1_000_000;
