//! AES and Blowfish, block after block. None where a key or a text has a size that cannot be.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt as _, KeyInit as _};

/// Bytes of a block of AES.
pub(super) const BLOCK: usize = 16;
const BLOWFISH_BLOCK: usize = 8;

/// AES, each block but the first mixed with the one before it.
pub(super) fn cbc(key: &[u8], start: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut open = ecb(key, bytes)?;
    let before = start.iter().chain(bytes);
    open.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
    Some(open)
}

/// AES, each block by itself.
pub(super) fn ecb(key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut open = bytes.to_vec();
    match key.len() {
        16 => blocks(&aes::Aes128::new_from_slice(key).ok()?, &mut open),
        24 => blocks(&aes::Aes192::new_from_slice(key).ok()?, &mut open),
        _ => blocks(&aes::Aes256::new_from_slice(key).ok()?, &mut open),
    }
    Some(open)
}

fn blocks<C: BlockCipherDecrypt>(cipher: &C, bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK) {
        if let Ok(block) = block.try_into() {
            cipher.decrypt_block(block);
        }
    }
}

/// Blowfish as a stream: the encryption of a block is mixed with the next one.
pub(super) fn blowfish_cfb(key: &[u8], start: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let cipher: blowfish::Blowfish = blowfish::Blowfish::new_from_slice(key).ok()?;
    let mut register: [u8; BLOWFISH_BLOCK] = start.try_into().ok()?;
    let mut open = Vec::with_capacity(bytes.len());
    for block in bytes.chunks(BLOWFISH_BLOCK) {
        let mut stream = register.into();
        cipher.encrypt_block(&mut stream);
        open.extend(block.iter().zip(stream).map(|(byte, other)| byte ^ other));
        register.iter_mut().zip(block).for_each(|(kept, byte)| *kept = *byte);
    }
    Some(open)
}
