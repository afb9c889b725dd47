// Package chaos holds the whole product to its promise on idempotency keys
// while everything around it, and it itself, breaks. It has tests only.
//
// # The world
//
// A history runs in a world of real processes: two or three gateways, built
// once from this module, on one Redis, each reaching it by a way of its own
// that can delay, lose, swallow and reset what passes. In front of them stand
// clients that repeat their requests at any gateway, send other bodies under
// the same key, use the keys of other tenants, lose patience and hang up.
// Behind them stands an origin with a ledger: whatever reaches it is written
// down before it is answered, or not answered, as its fate wants.
//
// Meanwhile faults befall the world, one after the other, out of a seed that is
// printed: gateways are killed between sending and settling, stopped for longer
// than a lease and resumed, replaced in good order; Redis is partitioned, slow,
// and killed. It confirms no write that is not on its disk, so what it has
// confirmed has to survive.
//
// When the clients are done the world heals, every lease runs out, and each
// record is asked for once more. An operator who can read the ledger resolves
// what is in doubt, and those records are asked for again.
//
// # The judgement
//
// It rests on what clients saw and on the ledger alone, not on anything that
// gateways say of themselves.
//
//   - At once, as a request arrives at the origin: under hold no request may
//     arrive for a record that has been executed, or while another one of it
//     runs; and no client's request may arrive twice. An execution is an entry
//     of the ledger that took effect, or may have: any but those that the origin
//     answered with "not done" (503, 429 and the like).
//   - At once, as an answer arrives at a client: it keeps to the wire contract,
//     and what claims to come from the origin equals, to the byte, the answer
//     of the execution that it names, which is one of the same tenant, route,
//     key and body.
//   - Afterwards, for each record: whoever was told that a request is running, is in
//     doubt, or is another one, can be shown the claim that was meant (intervals);
//     and one record, moving through the states of package idempotency, explains
//     all answers in an order that keeps to time (linearizability, by porcupine).
//   - Where no gateway was killed: clients, gateways and ledger count the same.
//
// The judge is judged too: a world in which the origin deduplicates, and the
// gateways are told so, has to be convicted when it is held to hold.
//
// # Running it
//
// The tests run short histories. "make chaos" runs long ones; CHAOS_REQUESTS is
// how many requests in all, CHAOS_SEEDS over how many histories, CHAOS_SEED the
// first one's seed, and CHAOS_RACE=1 has the gateways built with the race
// detector, too.
package chaos
