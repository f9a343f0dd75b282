"""Synthetic NFS captures with exact truth.

    bodies (nfs2, nfs3, nfs4, companions)  what a call and its reply say, from the RFCs' XDR
    -> rpc         headers, credentials, RPCSEC_GSS, TLS probes
    -> tcp, udp    segments and fragments, with planned faults
    -> capture     frames in capture order, link layers, snaplen; truth of every call
    -> files       pcap in four flavours, pcapng, gzip, zstd, several files

Bytes are written here with `struct` alone and share no line with the product's codec, so that a
mistake in one is not hidden by the same mistake in the other. Truth is derived from the frames
that are really written: for each byte of each stream, the first frame that shows it. Everything
random comes from one seed.
"""
