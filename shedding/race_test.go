//go:build race

package shedding

// raceDetector tells tests that pools drop what is put into them at random.
const raceDetector = true
