//! Whether symbolic links may leave the directory in which they are found.

/// Which symbolic links that leave their directory are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowLinks {
    /// None of them.
    #[default]
    No,
    /// Links that belong to the owner of their target.
    SameOwner,
    /// All of them.
    Yes,
}
