// The sending end: hands media to WebRTC at exact moments, as a camera and a microphone would.
"use strict";

const AHEAD = 2; // batches of pictures fetched before their time
const late = { picture: [], sound: [] }; // ms a hand-over came after its moment

/** `plan`: {pictures: [{track, width, height, times: [ms], batch, bps}], sounds: [{track, bps, chunk}]}.
 *  The times count from `begin`. Returns the offer. */
async function offer(plan) {
  makeConnection();
  window.plan = plan;
  const streams = [];
  const stream = (index) => (streams[index] = streams[index] || new MediaStream());
  plan.pictures.forEach((picture, index) => {
    picture.source = new MediaStreamTrackGenerator({ kind: "video" });
    const sender = pc.addTransceiver(picture.source, {
      direction: "sendonly",
      streams: [stream(index)],
      sendEncodings: [{ maxBitrate: picture.bps }],
    });
    const codecs = RTCRtpSender.getCapabilities("video").codecs;
    sender.setCodecPreferences(codecs.filter((c) => /VP8|rtx/i.test(c.mimeType)));
  });
  // A picture and the sound of the same place share a stream: WebRTC keeps those in step.
  plan.sounds.forEach((sound, index) => {
    sound.source = new MediaStreamTrackGenerator({ kind: "audio" });
    const place = plan.pictures.length ? Math.min(index, Math.max(plan.pictures.length - 1, 0)) : index;
    pc.addTransceiver(sound.source, { direction: "sendonly", streams: [stream(place)] });
  });
  await pc.setLocalDescription(await pc.createOffer());
  return gathered();
}

async function accept(sdp) {
  await pc.setRemoteDescription({ type: "answer", sdp });
  await connected();
}

async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.arrayBuffer();
}

/** Sends everything; `begin` is the moment the plan's times count from. */
function run(begin) {
  const works = [...plan.pictures.map((p) => sendPictures(p, begin)), ...plan.sounds.map((s) => sendSound(s, begin))];
  window.work = Promise.all(works);
}

async function sendPictures(picture, begin) {
  const { track, width, height, times, batch } = picture;
  const size = (width * height * 3) / 2;
  const writer = picture.source.writable.getWriter();
  const batches = [];
  const load = (number) => {
    if (number * batch < times.length) batches[number] = fetched(`/media/pictures/${track}/${number}`);
  };
  for (let number = 0; number < AHEAD; number++) load(number);
  for (let index = 0; index < times.length; index++) {
    const number = Math.floor(index / batch);
    const data = await batches[number];
    if (index % batch === 0) {
      load(number + AHEAD);
      batches[number - 1] = null;
    }
    const moment = begin + times[index];
    const pixels = new Uint8Array(data, (index % batch) * size, size);
    const frame = new VideoFrame(pixels, {
      format: "I420", codedWidth: width, codedHeight: height, timestamp: Math.round(moment * 1000),
    });
    await until(moment);
    writer.write(frame);
    late.picture.push(performance.now() - moment);
  }
}

async function sendSound(sound, begin) {
  const samples = new Float32Array(await fetched(`/media/sound/${sound.track}`));
  const writer = sound.source.writable.getWriter();
  const count = sound.chunk; // samples of 20 ms
  for (let index = 0; (index + 1) * count <= samples.length; index++) {
    const start = begin + (index * count) / 48;
    const data = new AudioData({
      format: "f32", sampleRate: 48000, numberOfChannels: 1, numberOfFrames: count,
      timestamp: Math.round(start * 1000), data: samples.subarray(index * count, (index + 1) * count),
    });
    const moment = start + count / 48; // when its last sample exists
    await until(moment);
    writer.write(data);
    late.sound.push(performance.now() - moment);
  }
}

/** Waits for the last hand-over and tells how late they came. */
async function finish() {
  await window.work;
  return late;
}
