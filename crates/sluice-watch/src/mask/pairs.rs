//! The secrets in `name=value`, wherever it stands: queries in targets and Referer, parameters, forms.

use crate::mask::masks::{Masks, NAME_BYTES_MAX, may_be_in_name};

/// The mask of pairs. A value ends where one of a query does.
#[derive(Clone, Debug)]
pub(super) struct PairMask {
    masks: Masks,
    name: Vec<u8>,
    is_masked: bool,
}

impl PairMask {
    pub(super) fn new(masks: &Masks) -> PairMask {
        PairMask {
            masks: masks.clone(),
            name: Vec::new(),
            is_masked: false,
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let ends_value = byte.is_ascii_whitespace() || byte.is_ascii_control() || b"&\"<>#".contains(byte);
            match *byte {
                _ if self.is_masked && !ends_value => *byte = b'*',
                b'=' => {
                    self.is_masked = self.masks.is_secret(&self.name);
                    self.name.clear();
                }
                0x80.. => self.add_to_name(*byte),
                _ if may_be_in_name(char::from(*byte)) => self.add_to_name(*byte),
                _ => {
                    self.is_masked = false;
                    self.name.clear();
                }
            }
        }
    }

    fn add_to_name(&mut self, byte: u8) {
        if self.name.len() < NAME_BYTES_MAX {
            self.name.push(byte);
        }
    }
}
