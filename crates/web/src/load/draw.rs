//! What is asked for next: kind, class, file and directory, drawn from a seed.
//!
//! All by Walker's alias method ([`measure::weights`]), which keeps every share exactly: Zipf over
//! the directories, too, whatever their number.

use measure::Random;
use measure::weights::{WeightError, Weights};

use super::config::LoadConfig;
use crate::error::WebError;
use crate::fileset::{CLASS_SHARES, FILE_WEIGHTS, FileId, zipf};
use crate::page::Kind;

/// A request that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub kind: Kind,
    pub file: FileId,
    /// Ask for the connection to be closed.
    pub close: bool,
    /// Compare the reply's bytes.
    pub verify: bool,
}

/// What draws.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    kinds: Weights<Kind>,
    classes: Weights<u8>,
    files: Weights<u8>,
    directories: Weights<u32>,
    close_share: f64,
    verify_share: f64,
    random: Random,
}

impl Draws {
    /// Of one thread.
    pub fn new(config: &LoadConfig, thread: u32) -> Result<Self, WebError> {
        let wrong = |error: WeightError| WebError::system("shares cannot be drawn from", error);
        let stream = [0x7765_6202, u64::from(config.process), u64::from(thread)];
        Ok(Draws {
            kinds: config.mix.weights()?,
            classes: Weights::new((0..).zip(CLASS_SHARES)).map_err(wrong)?,
            files: Weights::new((1..).zip(FILE_WEIGHTS)).map_err(wrong)?,
            directories: zipf(config.file_set.directories).map_err(wrong)?,
            close_share: config.close_share,
            verify_share: config.verify_share,
            random: Random::new(config.seed, &stream),
        })
    }

    /// The next request.
    #[inline]
    pub fn next(&mut self) -> Drawn {
        let random = &mut self.random;
        let kind = self.kinds.draw(random).unwrap_or(Kind::StaticGet);
        let file = FileId {
            directory: self.directories.draw(random).unwrap_or(0),
            class: self.classes.draw(random).unwrap_or(0),
            file: self.files.draw(random).unwrap_or(1),
        };
        Drawn {
            kind,
            file,
            close: random.chance(self.close_share),
            verify: random.chance(self.verify_share) || kind == Kind::Post,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::FILES;

    /// Chi-square of counts against exact probabilities, and its degrees of freedom.
    fn chi_square(seen: &[u64], shares: &[f64]) -> (f64, f64) {
        let total: u64 = seen.iter().sum();
        let sum: f64 = shares.iter().sum();
        let square = |(seen, share): (&u64, &f64)| {
            let expected = total as f64 * share / sum;
            (*seen as f64 - expected).powi(2) / expected
        };
        let all = seen.iter().zip(shares).map(square).sum();
        (all, seen.len() as f64 - 1.0)
    }

    /// Above this is less than one in a million (Wilson and Hilferty's approximation, z = 4.75).
    fn bound(freedom: f64) -> f64 {
        let ninth = 2.0 / (9.0 * freedom);
        freedom * (1.0 - ninth + 4.75 * ninth.sqrt()).powi(3)
    }

    #[test]
    fn shares_are_those_that_were_asked_for() {
        let text = r#"{"address": "127.0.0.1:1", "file_set": {"directories": 700},
                       "load": {"mode": "closed", "connections": 1}, "measure_s": 1}"#;
        let config = LoadConfig::from_json(text).unwrap();
        let mut draws = Draws::new(&config, 0).unwrap();
        let (mut kinds, mut classes, mut closes) = ([0; 5], [0; 4], [0; 2]);
        let mut files = [[0; FILES]; 4];
        let mut directories = vec![0; 700];
        for _ in 0..1_000_000 {
            let drawn = draws.next();
            kinds[drawn.kind as usize] += 1;
            classes[usize::from(drawn.file.class)] += 1;
            files[usize::from(drawn.file.class)][usize::from(drawn.file.file) - 1] += 1;
            directories[drawn.file.directory as usize] += 1;
            closes[usize::from(drawn.close)] += 1;
        }
        // Zipf's shares by their sum, not by the table that is drawn from.
        let zipf: Vec<f64> = (1..=700).map(|rank| 1.0 / f64::from(rank)).collect();
        let mut all = vec![
            chi_square(&kinds, &[0.7, 0.1245, 0.0015, 0.126, 0.048]),
            chi_square(&classes, &[0.35, 0.5, 0.14, 0.01]),
            chi_square(&closes, &[0.7, 0.3]),
            chi_square(&directories, &zipf),
        ];
        let popularity = [39.0, 59.0, 88.0, 177.0, 353.0, 118.0, 71.0, 50.0, 44.0];
        all.extend(files.iter().map(|seen| chi_square(seen, &popularity)));
        for (number, (square, freedom)) in all.into_iter().enumerate() {
            assert!(square < bound(freedom), "{number}: {square} of {freedom}");
        }
        // A flat draw would not pass.
        let flat = [1_000_000 / 700; 700];
        assert!(chi_square(&flat, &zipf).0 > bound(699.0));
    }
}
