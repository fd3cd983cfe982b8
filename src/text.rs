//! Text made safe for where it goes: clipping, control stripping, escapes. (Interface; see the module owner.)
