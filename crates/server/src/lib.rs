//! An embedded NFSv3 server: stores behind one trait, the protocol without sockets, a reply cache,
//! the network loop, and a service model that plants causes.
