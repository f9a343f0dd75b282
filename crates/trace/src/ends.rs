//! The least and the largest of what was seen.

/// Both ends; the least is above the largest until something is taken.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The least.
    pub least: i64,
    /// The largest.
    pub most: i64,
}

impl Default for Ends {
    fn default() -> Self {
        Ends {
            least: i64::MAX,
            most: i64::MIN,
        }
    }
}

impl Ends {
    /// Takes one more.
    #[inline(always)]
    pub fn take(&mut self, value: i64) {
        self.add(Ends {
            least: value,
            most: value,
        });
    }

    /// Takes all that others took.
    #[inline(always)]
    pub fn add(&mut self, others: Ends) {
        self.least = self.least.min(others.least);
        self.most = self.most.max(others.most);
    }

    /// The least and the largest, once there are any.
    pub fn known(self) -> Option<(i64, i64)> {
        (self.least <= self.most).then_some((self.least, self.most))
    }
}
