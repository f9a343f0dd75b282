//! Tests of the streams.
