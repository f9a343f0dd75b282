//! Every procedure of NFSv3 (RFC 1813 section 3.3), MOUNT version 3 (its appendix I), portmap
//! version 2 and the one of rpcbind version 4 that a client needs (RFC 1833).

use wire::mount::{dirpath, exports, mountlist, mountres3};
use wire::nfs3 as v3;
use wire::portmap::{mapping, rpcb, rpcb_string};
use wire::programs::{MOUNT, NFS, PORTMAP};

use super::Procedure;

macro_rules! procedures {
    ($($name:ident = [$program:expr, $version:expr, $number:expr],
        ($($arguments:tt)*) -> ($($results:tt)*), $text:literal;)*) => {$(
        #[doc = $text]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Procedure for $name {
            const TARGET: [u32; 3] = [$program, $version, $number];
            type Arguments<'a> = $($arguments)*;
            type Results<'a> = $($results)*;
        }
    )*};
}

procedures! {
    Null = [NFS, 3, 0], (()) -> (()), "NULL (3.3.0).";
    GetAttr = [NFS, 3, 1], (v3::GETATTR3args<'a>) -> (v3::GETATTR3res), "GETATTR (3.3.1).";
    SetAttr = [NFS, 3, 2], (v3::SETATTR3args<'a>) -> (v3::SETATTR3res), "SETATTR (3.3.2).";
    Lookup = [NFS, 3, 3], (v3::LOOKUP3args<'a>) -> (v3::LOOKUP3res<'a>), "LOOKUP (3.3.3).";
    Access = [NFS, 3, 4], (v3::ACCESS3args<'a>) -> (v3::ACCESS3res), "ACCESS (3.3.4).";
    ReadLink = [NFS, 3, 5], (v3::READLINK3args<'a>) -> (v3::READLINK3res<'a>), "READLINK (3.3.5).";
    Read = [NFS, 3, 6], (v3::READ3args<'a>) -> (v3::READ3res<'a>), "READ (3.3.6).";
    Write = [NFS, 3, 7], (v3::WRITE3args<'a>) -> (v3::WRITE3res), "WRITE (3.3.7).";
    Create = [NFS, 3, 8], (v3::CREATE3args<'a>) -> (v3::CREATE3res<'a>), "CREATE (3.3.8).";
    MkDir = [NFS, 3, 9], (v3::MKDIR3args<'a>) -> (v3::MKDIR3res<'a>), "MKDIR (3.3.9).";
    SymLink = [NFS, 3, 10], (v3::SYMLINK3args<'a>) -> (v3::SYMLINK3res<'a>), "SYMLINK (3.3.10).";
    MkNod = [NFS, 3, 11], (v3::MKNOD3args<'a>) -> (v3::MKNOD3res<'a>), "MKNOD (3.3.11).";
    Remove = [NFS, 3, 12], (v3::REMOVE3args<'a>) -> (v3::REMOVE3res), "REMOVE (3.3.12).";
    RmDir = [NFS, 3, 13], (v3::RMDIR3args<'a>) -> (v3::RMDIR3res), "RMDIR (3.3.13).";
    Rename = [NFS, 3, 14], (v3::RENAME3args<'a>) -> (v3::RENAME3res), "RENAME (3.3.14).";
    Link = [NFS, 3, 15], (v3::LINK3args<'a>) -> (v3::LINK3res), "LINK (3.3.15).";
    ReadDir = [NFS, 3, 16], (v3::READDIR3args<'a>) -> (v3::READDIR3res<'a>), "READDIR (3.3.16).";
    ReadDirPlus = [NFS, 3, 17],
        (v3::READDIRPLUS3args<'a>) -> (v3::READDIRPLUS3res<'a>), "READDIRPLUS (3.3.17).";
    FsStat = [NFS, 3, 18], (v3::FSSTAT3args<'a>) -> (v3::FSSTAT3res), "FSSTAT (3.3.18).";
    FsInfo = [NFS, 3, 19], (v3::FSINFO3args<'a>) -> (v3::FSINFO3res), "FSINFO (3.3.19).";
    PathConf = [NFS, 3, 20], (v3::PATHCONF3args<'a>) -> (v3::PATHCONF3res), "PATHCONF (3.3.20).";
    Commit = [NFS, 3, 21], (v3::COMMIT3args<'a>) -> (v3::COMMIT3res), "COMMIT (3.3.21).";
    MountNull = [MOUNT, 3, 0], (()) -> (()), "MOUNT NULL.";
    Mnt = [MOUNT, 3, 1], (dirpath<'a>) -> (mountres3<'a>), "MNT (RFC 1813 5.2.1).";
    Dump = [MOUNT, 3, 2], (()) -> (mountlist<'a>), "DUMP (RFC 1813 5.2.2).";
    Umnt = [MOUNT, 3, 3], (dirpath<'a>) -> (()), "UMNT (RFC 1813 5.2.3).";
    UmntAll = [MOUNT, 3, 4], (()) -> (()), "UMNTALL (RFC 1813 5.2.4).";
    ListExports = [MOUNT, 3, 5], (()) -> (exports<'a>), "EXPORT (RFC 1813 5.2.5).";
    GetPort = [PORTMAP, 2, 3], (mapping) -> (u32), "PMAPPROC_GETPORT of portmap version 2.";
    GetAddr = [PORTMAP, 4, 3], (rpcb<'a>) -> (rpcb_string<'a>), "RPCBPROC_GETADDR, version 4.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table against the names in `wire`, which were checked against captures.
    #[test]
    fn numbers_have_their_names() {
        fn name<P: Procedure>() -> String {
            let [program, version, procedure] = P::TARGET;
            let name = wire::programs::procedure_name(program, version, procedure);
            format!(
                "{} {}",
                std::any::type_name::<P>().rsplit("::").next().unwrap(),
                name.unwrap()
            )
        }
        let names = [
            name::<Null>(),
            name::<GetAttr>(),
            name::<SetAttr>(),
            name::<Lookup>(),
            name::<Access>(),
            name::<ReadLink>(),
            name::<Read>(),
            name::<Write>(),
            name::<Create>(),
            name::<MkDir>(),
            name::<SymLink>(),
            name::<MkNod>(),
            name::<Remove>(),
            name::<RmDir>(),
            name::<Rename>(),
            name::<Link>(),
            name::<ReadDir>(),
            name::<ReadDirPlus>(),
            name::<FsStat>(),
            name::<FsInfo>(),
            name::<PathConf>(),
            name::<Commit>(),
        ];
        for shown in names {
            let (ours, theirs) = shown.split_once(' ').unwrap();
            assert_eq!(ours.to_uppercase(), theirs);
        }
        assert_eq!(name::<Mnt>(), "Mnt MNT");
        assert_eq!(name::<Umnt>(), "Umnt UMNT");
        assert_eq!(name::<ListExports>(), "ListExports EXPORT");
        assert_eq!(name::<GetPort>(), "GetPort GETPORT");
    }
}
