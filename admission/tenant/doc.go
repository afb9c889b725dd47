// Package tenant finds out on whose behalf a request comes.
//
// # The model
//
// A [Resolver] asks its sources in order: a trusted header, an API key, the
// client's certificate, the client's address. The first that finds something
// presented decides. What is presented and wrong is refused and never falls
// through to the next source, or an unknown key would make a client anonymous
// instead of unwelcome. Where nothing is presented the request belongs to
// [Anonymous], which all such requests share, or is refused.
//
// # Name spaces
//
// A tenant's name is what limits and overrides go by, so no client may give
// itself another's:
//
//   - API keys map to the names that the policy gives them;
//   - addresses make "ip:192.0.2.7", "ip:192.0.2.0/24" or "ip:2001:db8::/64";
//   - certificates make "cert:" and the certificate's name;
//   - "anonymous" is for requests that present nothing;
//   - a header makes any other name: at most [MaxName] visible ASCII
//     characters, not beginning with "ip:" or "cert:", not "anonymous", and not
//     the tenant of an API key. One that needs a key is not to be had by
//     writing its name.
//
// # API keys
//
// The policy holds the SHA-256 of each key. A presented key is hashed before
// anything else is done with it, and only its hash is looked up: by 64 bits of
// it in a map, then as a whole in constant time. The time that takes can tell
// at most whether some configured hash begins like the presented key's. To use
// that, a client would have to find keys whose hash begins as it likes, and
// would learn a hash's beginning, from which no key follows. This holds for
// keys that cannot be guessed: make them of 128 random bits or more. No key and
// no hash ever appears in an error, a refusal or a log.
package tenant
