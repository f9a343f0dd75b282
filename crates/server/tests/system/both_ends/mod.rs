//! Our client against our server over loopback: every procedure, restarts, planted causes.

mod forgetful;
mod ganesha;
mod pair;
mod planted;
mod procedures;
mod restarts;
