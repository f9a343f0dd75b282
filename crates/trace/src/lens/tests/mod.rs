//! What the tests of several lenses need.

pub mod hand_made;
