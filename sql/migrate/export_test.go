package migrate

var PeerFacts = peerFacts
